import io
import json
from pathlib import Path
from typing import Any

import pytest

from agent.cli import main
from ingest.cli import main as submitted
from ingest.load import Loaded
from ingest.progress import Progress
from ingest.resend import describe_gaps
from ingest.small_tables import write_rows
from ingest.store import Change, Store


@pytest.mark.parametrize("action", ["report", "gaps", "compact"])
def test_tables_that_are_not_there_are_said_so(action: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ingest", action, "--tables", str(tmp_path / "none")]) == 66
    assert "no such folder of tables" in capsys.readouterr().err


def test_a_landing_area_that_is_not_there_is_said_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["ingest", "run", "--tables", str(tmp_path / "t"), "--landing", str(tmp_path / "none")]
    assert main(arguments) == 66
    assert "no such landing area" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("action", "option"),
    [
        ("run", "--tables"),
        ("run", "--landing"),
        ("run", "--devices"),
        ("run", "--receipts"),
        ("run", "--group-keys"),
        ("run", "--decryption-key"),
        ("run", "--report"),
        ("run", "--spark-log"),
        ("report", "--tables"),
        ("report", "--output"),
        ("query", "--tables"),
        ("gaps", "--tables"),
        ("compact", "--tables"),
    ],
)
def test_a_uri_that_cannot_be_used_is_refused_before_anything_is_written(
    action: str, option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    needed = {"--tables": "t", "--landing": "."} if action == "run" else {"--tables": "t"}
    options = [part for pair in {**needed, option: "s3a://bucket/x"}.items() for part in pair]
    with pytest.raises(SystemExit) as ended:
        main(["ingest", action, *(["SELECT 1"] if action == "query" else []), *options])
    assert ended.value.code == 2
    assert f"{option}: s3a://bucket/x: only local files" in capsys.readouterr().err.replace("/-o", "")
    assert list(tmp_path.iterdir()) == []


def test_a_file_uri_is_a_local_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ingest", "gaps", "--tables", (tmp_path / "none").as_uri()]) == 66
    assert f"{tmp_path / 'none'}" in capsys.readouterr().err


def test_tables_that_another_run_writes_are_refused_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store(tmp_path / "t"):
        assert submitted(["run", "--tables", str(tmp_path / "t"), "--landing", str(tmp_path)]) == 69
    assert "another run writes these tables" in capsys.readouterr().err


def test_key_files_are_checked_before_spark_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "keys.json").touch(mode=0o600)
    (tmp_path / "keys.json").write_text("no")
    arguments = [
        "--tables",
        str(tmp_path / "t"),
        "--landing",
        str(tmp_path),
        "--group-keys",
        str(tmp_path / "keys.json"),
    ]
    assert main(["ingest", "run", *arguments]) == 78
    assert "keys.json" in capsys.readouterr().err


GAP: dict[str, Any] = {
    "device": "0xd1",
    "chain": "boiler",
    "after_timestamp_ms": None,
    "after_sequence": None,
    "last_timestamp_ms": 1_790_000_000_000,
    "last_sequence": 2,
    "before_timestamp_ms": 1_790_000_001_000,
    "before_sequence": 0,
    "missing": 3,
    "explained": 0,
    "held": 1,
    "cause": None,
    "state": "open",
    "log": None,
}


def test_a_gap_is_one_line() -> None:
    (line,) = describe_gaps([GAP])
    assert line == ("0xd1 boiler: 3 missing, the beginning to 2026-09-21T14:13:21.000+00:00: 1 in quarantine (open)")
    assert "unexplained" in describe_gaps([{**GAP, "held": 0}])[0]


def test_a_gap_in_a_device_log_is_one_line() -> None:
    gap = {"log": "7c", "lane": 4, "first_position": 10, "next_position": 13, "cause": "archive missing"}
    (line,) = describe_gaps([{**GAP, **gap, "chain": None}])
    assert line == "0xd1 log 7c lane 4: 3 missing, positions 10 to 12: archive missing"
    assert describe_gaps([]) == ["no gaps"]


def test_a_gap_at_a_time_that_no_calendar_holds_is_one_line() -> None:
    (line,) = describe_gaps([{**GAP, "after_timestamp_ms": 2**53 - 2, "before_timestamp_ms": 2**53 - 1}])
    assert "9007199254740990 ms to 9007199254740991 ms" in line


def test_a_gap_of_a_chain_without_messages_asks_for_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Store(tmp_path) as store:
        gaps = write_rows("gaps", [GAP], store.work("gaps") / "a.parquet")
        store.commit(store.account(), {"gaps": Change([gaps])})
    assert main(["ingest", "gaps", "--tables", str(tmp_path), "--request"]) == 0
    assert capsys.readouterr().out.strip() == ""


def test_a_resend_request_covers_the_gap(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = {"device": "0xd1", "chain": "boiler", "stream_id": "s", "stream_partition": 4, "msg_chain_id": "c"}
    with Store(tmp_path) as store:
        messages = write_rows("messages", [message], store.work("messages") / "date=2026-09-21" / "a.parquet")
        gaps = write_rows("gaps", [GAP, {**GAP, "state": "closed"}], store.work("gaps") / "a.parquet")
        store.commit(store.account(), {"messages": Change([messages]), "gaps": Change([gaps])})
    assert main(["ingest", "gaps", "--tables", str(tmp_path), "--request"]) == 0
    (request,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert request == {
        "streamId": "s",
        "streamPartition": 4,
        "publisherId": "0xd1",
        "msgChainId": "c",
        "fromMsgRef": {"timestamp": 0, "sequenceNumber": 0},
        "toMsgRef": {"timestamp": 1_790_000_000_000, "sequenceNumber": 2},
    }


def test_progress_tells_what_is_done_and_what_is_left() -> None:
    stream = io.StringIO()
    progress = Progress(stream)
    progress.expect(5)
    progress.reach(Loaded(archives=2, records=300))
    progress.reach(Loaded(archives=3, records=200))
    progress.finish()
    lines = stream.getvalue().splitlines()
    assert lines[0] == "5 archives to look at"
    assert lines[1].startswith("2 archives, 300 records, ")
    assert "3 archives to go, about" in lines[1]
    assert lines[-1].startswith("done: 5 archives, 500 records, ")


@pytest.mark.parametrize("action", ["report", "query", "gaps", "compact"])
def test_a_folder_without_tables_is_refused_and_left_as_it_is(
    action: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sql = ["SELECT 1"] if action == "query" else []
    assert main(["ingest", action, *sql, "--tables", str(tmp_path)]) == 78
    assert "there are no tables in it" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "option",
    [
        ("--every", "-1"), ("--every", "nan"), ("--every", "inf"), ("--every", "x"), ("--batch-archives", "0"),
        ("--batch-megabytes", "-5"),
    ],
)  # fmt: skip
def test_numbers_that_make_no_sense_are_refused_at_once(
    option: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["ingest", "run", "--landing", str(tmp_path), "--tables", str(tmp_path / "t"), *option])
    assert option[0] in capsys.readouterr().err


def test_a_mistyped_device_is_refused_and_not_read_as_an_empty_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["ingest", "run", "--landing", str(tmp_path), "--tables", str(tmp_path / "t")]
    assert main([*run, "--device", "0x7E5F4552091A69125d5DfCb7b8C2659029395Bd"]) == 78
    assert "is not an address" in capsys.readouterr().err
    assert main([*run, "--devices", str(tmp_path / "nowhere")]) == 66
    assert "no such folder of devices" in capsys.readouterr().err
