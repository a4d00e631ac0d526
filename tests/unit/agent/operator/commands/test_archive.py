import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from nacl.public import PrivateKey

from agent.cli import main
from agent.clock import ChainReferences, ClockReading
from agent.errors import ExitCode
from agent.pack.routing import Route
from agent.pack.wrap import Group, Wrapped, Wrapper
from drivers import Reading
from protocol.archive.encryption import Encryptor, derive_encryption_keys
from protocol.archive.random_access import open_archive
from protocol.ethereum.signer import Signer
from tests.support.archives import LOSS, read_at_of, record, write_archive
from tests.support.ceilings import CeilingInMemory
from tests.support.pack_samples import binary_content, json_content, linked_readings, signed_message

RECORDS = [
    *map(record, range(19)),
    record(19)._replace(readings=250),
    record(20, text=b"\xff not UTF-8")._replace(position=1_000),
]
READINGS = sum(each.readings for each in RECORDS)
DATA = write_archive(RECORDS, [LOSS])
NOW_MS = 1_700_000_000_000
COLLECTOR = PrivateKey(b"k" * 32)


def named(folder: Path, data: bytes, suffix: str = ".hga") -> Path:
    path = folder / (hashlib.sha256(data).hexdigest() + suffix)
    path.write_bytes(data)
    return path


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return named(tmp_path, DATA)


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    entry = open_archive(read_at_of(DATA), len(DATA)).manifest.blocks[1]
    broken = bytearray(DATA)
    broken[entry.offset + 20] ^= 0xFF
    path = tmp_path / "damaged.hga"
    path.write_bytes(broken)
    return path


@pytest.fixture
def encrypted(tmp_path: Path) -> Path:
    encryptor = Encryptor(derive_encryption_keys(b"s" * 32, b"a" * 32, COLLECTOR.public_key), COLLECTOR.public_key)
    return named(tmp_path, encryptor.begin() + encryptor.update(DATA) + encryptor.finish(), ".hgs")


@pytest.fixture
def collector_key(tmp_path: Path) -> str:
    tmp_path.chmod(0o700)
    path = tmp_path / "collector.key"
    path.write_text(bytes(COLLECTOR).hex() + "\n")
    path.chmod(0o600)
    return str(path)


def output(capfdbinary: pytest.CaptureFixture[bytes]) -> list[Any]:
    return [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]


def test_list_tells_what_is_in_each_archive_of_a_directory(
    archive: Path, encrypted: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["archive", "list", "--json", str(archive.parent)]) == ExitCode.OK
    by_file = {each["file"]: each for each in output(capfdbinary)}
    assert (by_file[str(archive)]["readings"], by_file[str(archive)]["messages"]) == (READINGS, 21)
    assert by_file[str(archive)]["lost_readings"] == 3
    assert by_file[str(archive)]["created_at"] == "2023-11-14T22:13:20.000+00:00"
    assert by_file[str(encrypted)]["encrypted_for"] == bytes(COLLECTOR.public_key).hex()
    assert main(["archive", "list", str(archive)]) == ExitCode.OK
    assert b"readings=%d  messages=21" % READINGS in capfdbinary.readouterr().out


def test_list_names_what_is_no_archive_and_goes_on(archive: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    (archive.parent / "0.hga").write_bytes(b"rubbish")
    assert main(["archive", "list", "--json", str(archive.parent)]) == ExitCode.BAD_DATA
    assert [("problem" in each) for each in output(capfdbinary)] == [True, False]


def test_verify_finds_a_good_archive_good(archive: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["archive", "verify", "--json", str(archive)]) == ExitCode.OK
    (verdict,) = output(capfdbinary)
    assert verdict["good"]
    assert (verdict["readings"], verdict["messages"]) == (READINGS, 21)
    assert main(["archive", "verify", str(archive.parent)]) == ExitCode.OK
    assert b": good, %d readings in 21 messages" % READINGS in capfdbinary.readouterr().out


def test_verify_names_the_damaged_block_and_the_wrong_name(
    damaged: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["archive", "verify", "--json", str(damaged)]) == ExitCode.NO
    (verdict,) = output(capfdbinary)
    assert not verdict["good"]
    assert verdict["damaged_readings"] > 0
    assert verdict["readings"] + verdict["damaged_readings"] == READINGS
    assert "SHA-256" in verdict["problems"][0]
    assert verdict["problems"][1].startswith("block 1: damaged")
    assert main(["archive", "verify", str(damaged)]) == ExitCode.NO
    assert b"DAMAGED" in capfdbinary.readouterr().out


def test_verify_of_a_cut_file_says_that_it_is_cut(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    path = tmp_path / "upload.part"
    path.write_bytes(DATA[:-100])
    assert main(["archive", "verify", str(path)]) == ExitCode.NO
    assert b"cut short" in capfdbinary.readouterr().out


def test_cat_gives_the_exact_texts(archive: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["archive", "cat", str(archive)]) == ExitCode.OK
    assert capfdbinary.readouterr().out == b"".join(each.text + b"\n" for each in RECORDS)


def test_cat_of_a_damaged_archive_gives_the_rest_and_reports_the_damage(
    damaged: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["archive", "cat", str(damaged)]) == ExitCode.BAD_DATA
    captured = capfdbinary.readouterr()
    assert 0 < len(captured.out.splitlines()) < 21
    assert b"block 1: damaged" in captured.err


def test_export_lines_holds_the_message_as_json_and_other_bytes_as_base64(
    archive: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["archive", "export", str(archive)]) == ExitCode.OK
    first, *_, last = output(capfdbinary)
    assert first["message"] == json.loads(RECORDS[0].text)
    assert (first["chain"], first["timestamp_ms"], first["sequence"]) == ("chain-0", RECORDS[0].timestamp_ms, 0)
    assert last["base64"]


def test_export_flat_has_the_same_plain_columns_in_every_line(
    archive: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["archive", "export", "--format", "flat", str(archive)]) == ExitCode.OK
    rows = output(capfdbinary)
    assert len({tuple(row) for row in rows}) == 1
    for name in rows[0]:
        assert len({type(row[name]) for row in rows} - {type(None)}) <= 1, name
    assert [row["record"] for row in rows] == list(range(21))
    assert rows[0]["text"].encode() == RECORDS[0].text
    assert rows[0]["archive"] == archive.stem
    assert (rows[20]["encoding"], rows[0]["encoding"]) == ("base64", "utf-8")


def test_a_encrypted_archive_needs_the_collectors_key(
    encrypted: Path, collector_key: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["archive", "cat", str(encrypted)]) == ExitCode.BAD_CONFIG
    assert b"--open-with" in capfdbinary.readouterr().err
    assert main(["archive", "cat", str(encrypted), "--open-with", collector_key]) == ExitCode.OK
    assert len(capfdbinary.readouterr().out.splitlines()) == 21
    assert main(["archive", "verify", str(encrypted), "--open-with", collector_key]) == ExitCode.OK
    assert main(["archive", "list", str(encrypted), "--open-with", collector_key]) == ExitCode.OK


def test_a_key_that_is_none_is_refused_without_repeating_it(
    encrypted: Path, collector_key: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    Path(collector_key).write_text("abcdef")
    assert main(["archive", "cat", str(encrypted), "--open-with", collector_key]) == ExitCode.BAD_CONFIG
    assert b"abcdef" not in capfdbinary.readouterr().err


def test_a_file_that_is_not_there_is_named(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["archive", "cat", str(tmp_path / "none.hga")]) == ExitCode.NO_INPUT
    assert b"none.hga" in capfdbinary.readouterr().err


def test_export_flat_has_sensor_value_and_unit(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    values: list[float | bool | str] = [20.5, 7, True, "open"]
    readings = [Reading("boiler", "q", value, "Cel", taken_at_ms=NOW_MS) for value in values]
    references = ChainReferences(CeilingInMemory(), None)
    clock = ClockReading(now_ms=NOW_MS, monotonic_ms=1, boot_id=bytes(16), is_synchronised=True, max_error_ms=1)
    wrapped = Wrapped.nothing()
    route = Route("0xab/plant", 0, "binary", 4, "", "none", max_readings=1)
    Wrapper(Signer(b"\x07" * 32), references, max_payload_bytes=100_000).wrap([Group(route, readings)], clock, wrapped)
    records = [record(at)._replace(text=entry.payload) for at, entry in enumerate(wrapped.runs[0].entries)]
    path = tmp_path / "archive.hga"
    path.write_bytes(write_archive(records))
    assert main(["archive", "export", "--format", "flat", str(path)]) == ExitCode.OK
    rows = output(capfdbinary)
    assert {(row["stream_id"], row["sensor"], row["quantity"], row["unit"], row["taken_at_ms"]) for row in rows} == {
        ("0xab/plant", "boiler", "q", "Cel", NOW_MS)
    }
    columns = ("value", "value_integer", "value_boolean", "value_text")
    assert [tuple(row[name] for name in columns) for row in rows] == [
        (20.5, None, None, None),
        (7.0, 7, None, None),
        (None, None, True, None),
        (None, None, None, "open"),
    ]


def test_export_flat_has_one_line_per_reading_of_a_pack(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    contents = [
        binary_content(linked_readings(3)),
        json_content(linked_readings(2)),
        '{"ioMessages":"AAAA"}',
        '{"n":1}',
    ]
    texts = [signed_message(content, number).serialize().encode() for number, content in enumerate(contents)]
    readings = [3, 2, 1, 1]
    records = [record(10 * at)._replace(text=text, readings=readings[at]) for at, text in enumerate(texts)]
    path = tmp_path / "archive.hga"
    path.write_bytes(write_archive(records))
    assert main(["archive", "export", "--format", "flat", str(path)]) == ExitCode.OK
    rows = output(capfdbinary)
    assert len({tuple(row) for row in rows}) == 1
    assert [(row["record"], row["reading"], row["value"]) for row in rows] == [
        (0, 0, 20.0), (0, 1, 20.5), (0, 2, 21.0), (1, 0, 20.0), (1, 1, 20.5), (2, None, None), (3, None, None),
    ]  # fmt: skip
    assert [row["readings"] for row in rows] == [3, 3, 3, 2, 2, 1, 1]
    first = records[0].position
    assert [row["position"] for row in rows[:3]] == [first, first + 1, first + 2]
    assert [row["text"] is None for row in rows] == [False, True, True, False, True, False, False]


def test_a_folder_without_archives_is_said_to_have_none(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["archive", "list", str(tmp_path)]) == ExitCode.OK
    assert b"no archives" in capfdbinary.readouterr().err
    assert main(["archive", "verify", str(tmp_path)]) == ExitCode.NO_INPUT
    captured = capfdbinary.readouterr()
    assert (b"no archives" in captured.err, captured.out) == (True, b"")
