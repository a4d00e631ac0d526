"""The command line of `headgate journal`, on a journal in a real directory."""

import base64
import json
from pathlib import Path

import pytest

from agent.cli import main
from agent.journal import DirectoryDisk, Entry, Journal, JournalSettings

NOW_MS = 1_700_000_000_000


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    journal = _open(tmp_path)
    for number in range(12):
        journal.append(0, Entry(f'{{"reading": {number}}}'.encode(), "boiler", NOW_MS + number, number))
        journal.commit(NOW_MS + number * 1000)
    journal.append(7, Entry(b"\xff\x00", "camera", NOW_MS, 0))
    cursor = journal.cursor("publisher")
    journal.commit(NOW_MS + 12_000)
    cursor.acknowledge(0, 4)
    journal.close(NOW_MS + 12_000)
    return tmp_path


def _open(directory: Path) -> Journal:
    settings = JournalSettings(compression="none", cursors=("publisher", "archiver"), card_endurance_bytes=10**12)
    return Journal(DirectoryDisk(directory), settings, new_journal_id=6, now_ms=NOW_MS)


def _damage(directory: Path, page: int) -> None:
    path = directory / "0000.segment"
    content = bytearray(path.read_bytes())
    content[page * 4096 + 120] ^= 1
    path.write_bytes(content)


def _lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_stat_says_who_waits_what_it_costs_and_how_long_it_holds(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["journal", "stat", str(directory)]) == 0
    text = capsys.readouterr().out
    assert "lane 0: positions 0 to 12" in text
    assert "publisher: 8 readings pending, oldest" in text
    assert "archiver: 13 readings pending" in text
    assert "full if nothing is acknowledged: in " in text
    assert "card worn out: in " in text


def test_stat_speaks_json(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["journal", "stat", "--json", str(directory)]) == 0
    stats = json.loads(capsys.readouterr().out)
    assert stats["cursors"]["publisher"]["depth"] == 8
    assert stats["records"] == 13
    assert stats["written_per_payload_byte"] > 1
    assert stats["full_in_s"] > 0


def test_verify_answers_by_its_exit_code(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["journal", "verify", str(directory)]) == 0
    assert capsys.readouterr().out == "13 readings intact, in 13 messages; 0 readings damaged\n"
    _damage(directory, page=3)
    assert main(["journal", "verify", "--json", str(directory)]) == 1
    verdict = json.loads(capsys.readouterr().out)
    assert (verdict["is_sound"], verdict["records"], verdict["readings"]) == (False, 12, 12)
    assert verdict["damage"][0]["first_position"] == 3


def test_verify_works_while_the_agent_runs_and_repair_does_not(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = _open(directory)
    assert main(["journal", "verify", str(directory)]) == 0
    assert main(["journal", "repair", str(directory)]) == 74
    assert "writes to this journal; stop the agent first" in capsys.readouterr().err
    journal.close(NOW_MS)


def test_repair_leaves_a_sound_journal_and_a_gap_to_tell(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _damage(directory, page=3)
    assert main(["journal", "repair", str(directory)]) == 0
    assert capsys.readouterr().out == "1 segments rewritten, 1 readings newly reported as lost\n"
    assert main(["journal", "verify", str(directory)]) == 0
    journal = _open(directory)
    assert [gap.loss.first_position for gap in journal.pending_losses()] == [3]
    assert journal.cursor("publisher").position(0) == 5
    journal.close(NOW_MS)
    assert main(["journal", "repair", "--json", str(directory)]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {"rewritten_segments": 0, "lost_readings": 0}


def test_export_writes_one_json_line_per_record(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["journal", "export", "--lane", "0", "--from", "10", str(directory)]) == 0
    ten, eleven = _lines(capsys.readouterr().out)
    assert (ten["position"], ten["chain"], ten["payload"]) == (10, "boiler", '{"reading": 10}')
    assert (eleven["sequence"], eleven["committed_at_ms"]) == (11, NOW_MS + 11_000)
    output = tmp_path / "all.jsonl"
    assert main(["journal", "export", "--output", str(output), str(directory)]) == 0
    camera = _lines(output.read_text())[-1]
    assert base64.b64decode(str(camera["payload_base64"])) == b"\xff\x00"


def test_tail_writes_the_last_records_of_each_lane(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["journal", "tail", "--readings", "2", str(directory)]) == 0
    assert [(line["lane"], line["position"]) for line in _lines(capsys.readouterr().out)] == [(0, 10), (0, 11), (7, 0)]


def test_tail_follows_what_is_committed_later(
    directory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = _open(directory)
    rounds = iter(range(2))

    def commit_one_more(_: float) -> None:
        if next(rounds, None) is None:
            raise KeyboardInterrupt
        journal.append(0, Entry(b"new", "boiler", NOW_MS, 99))
        journal.commit(NOW_MS)

    monkeypatch.setattr("agent.operator.commands.journal.time.sleep", commit_one_more)
    assert main(["journal", "tail", "--readings", "1", "--follow", str(directory)]) == 130
    assert [line["position"] for line in _lines(capsys.readouterr().out)] == [11, 0, 12, 13]
    journal.close(NOW_MS)


@pytest.mark.parametrize("action", ["stat", "verify", "repair", "export", "tail"])
def test_a_directory_that_does_not_exist_is_named_and_not_made(
    action: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "none"
    assert main(["journal", action, str(missing)]) == 66
    assert str(missing) in capsys.readouterr().err
    assert not missing.exists()


def test_long_work_tells_its_progress(
    directory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.operator.commands.journal.PROGRESS_INTERVAL_S", 0)
    assert main(["journal", "verify", str(directory)]) == 0
    assert capsys.readouterr().err.splitlines()[-1] == "13 of 13 positions"
    assert main(["journal", "repair", str(directory)]) == 0
    assert capsys.readouterr().err.splitlines()[-1] == "2 of 2 segments"
