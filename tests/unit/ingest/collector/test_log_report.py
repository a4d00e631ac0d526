import hashlib
import json
import re
from pathlib import Path

import pytest

from agent.cli import main
from agent.errors import ExitCode
from ingest.collector.devices import AllowList, Device
from ingest.collector.intake import Intake
from ingest.collector.log_report import as_table, read_reports
from ingest.collector.log_state import Contradiction, Subject
from protocol.devicelog.log import LogHead
from protocol.ethereum import checksum_address
from tests.support.archives import BINDING, LOG, entry_of
from tests.support.collectors import DECRYPTION_KEY, PATIENT, SIGNING_KEY, make_folders
from tests.support.logging_device import LoggingDevice

ADDRESS = checksum_address(BINDING.address)
NEXT_LOG = b"the log after it"
NOW_MS = 1_700_000_000_000


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A log with a hole, a missing end and a fork, and the log that continues it."""
    intake = Intake(make_folders(tmp_path), PATIENT, SIGNING_KEY, bytes(DECRYPTION_KEY.public_key))
    intake.allow_list.enrol(
        Device(address=BINDING.address, archive_key=BINDING.archive_key, enrolled_at_ms=1, label="boiler house")
    )
    device = LoggingDevice()
    device.archives_made(6)
    with intake.logs.hold(BINDING.address, LOG, previous_log=b"", now_ms=NOW_MS) as log:
        for number in (0, 1, 3):
            entry = entry_of(device.archives[number])
            log.prepare(entry)
            log.append(entry, hashlib.sha256(device.archives[number]).digest(), NOW_MS)
        log.mark_forked(Contradiction(Subject.ROOT, 2, b"\xaa" * 32, b"\xbb" * 32), NOW_MS)
    intake.heartbeats.accept(device.checkpoint(waiting=1), NOW_MS + 60_000)
    following = LoggingDevice(head=LogHead(log=NEXT_LOG, previous_log=LOG))
    intake.heartbeats.accept(following.checkpoint(), NOW_MS + 120_000)
    return tmp_path / "state"


def logs(state: Path, *options: str) -> int:
    return main(["collector", "logs", "--state", str(state), *options])


def test_one_json_object_per_log(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert logs(state, "--json") == ExitCode.OK
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["device"], first["label"], first["log"]) == (ADDRESS, "boiler house", LOG.hex())
    assert (first["held_size"], first["archives"], first["replaced"]) == (2, 3, 0)
    assert (first["missing"], first["missing_readings"]) == ([[2, 3], [4, 5]], 20)
    assert (first["first_contact_ms"], first["last_contact_ms"]) == (NOW_MS, NOW_MS + 60_000)
    checkpoint = first["checkpoint"]
    assert (checkpoint["size"], checkpoint["waiting"], checkpoint["waiting_bytes"]) == (6, 1, 1000)
    assert (checkpoint["not_archived"], checkpoint["produced"]) == (10, 149)
    assert first["forks"] == [
        {"subject": "root", "number": 2, "held": "aa" * 32, "other": "bb" * 32, "found_at_ms": NOW_MS}
    ]
    assert (first["previous_log"], first["continued_by"]) == (None, [NEXT_LOG.hex()])
    assert (second["log"], second["previous_log"], second["missing"]) == (NEXT_LOG.hex(), LOG.hex(), [])


def test_a_table_for_people(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert logs(state, "--device", ADDRESS) == ExitCode.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{ADDRESS}  boiler house"
    headings = ["log", "archives", "held up to", "missing", "last contact", "last checkpoint"]
    assert re.split("  +", lines[1].strip()) == [*headings, "size", "produced", "not archived", "waiting"]
    row, *notes = lines[2:5]
    *shown, received_at, size, produced, not_archived, waiting = re.split("  +", row.strip())
    assert shown == [LOG.hex()[:12], "3", "2", "2, 4 (20 readings)", "2023-11-14T22:14:20"]
    assert (size, produced, not_archived, waiting) == ("6", "149", "10", "1")
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT[0-9:]{8}", received_at)
    assert notes[0].strip() == f"FORKED, found at 2023-11-14T22:13:20: root 2 is {'aa' * 32} here, not {'bb' * 32}"
    assert notes[1].strip() == f"continued by log {NEXT_LOG.hex()[:12]}"
    assert lines[-1].strip() == f"continues log {LOG.hex()[:12]}"


def test_no_logs_are_said_to_be_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert logs(tmp_path / "state") == ExitCode.OK
    assert "no logs" in capsys.readouterr().err
    assert logs(tmp_path / "state", "--device", "0x12") == ExitCode.BAD_CONFIG


def test_a_damaged_log_is_named_and_the_others_are_shown(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (state / "logs" / BINDING.address.hex() / LOG.hex() / "state").write_bytes(b"?")
    assert logs(state) == ExitCode.OK
    shown = capsys.readouterr().out
    assert "CANNOT BE READ: " in shown
    assert NEXT_LOG.hex()[:12] in shown
    assert logs(state, "--json") == ExitCode.OK
    assert "problem" in json.loads(capsys.readouterr().out.splitlines()[0])


def test_each_device_has_its_own_table(state: Path) -> None:
    other = state / "logs" / ("12" * 20)
    (state / "logs" / BINDING.address.hex()).rename(other)
    reports = list(read_reports(state / "logs", AllowList(state / "devices")))
    assert as_table(reports).startswith(checksum_address(b"\x12" * 20) + "\n")
