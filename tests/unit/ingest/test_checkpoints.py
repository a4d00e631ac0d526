import os
from pathlib import Path

from ingest.account import Account
from ingest.checkpoints import Beside, read_checkpoints, read_forks
from ingest.device_logs import LogAccount, LogName
from protocol.archive.receipt import ReceiptStatement, sign_receipt
from protocol.devicelog.checkpoint import Checkpoint
from protocol.shipping import checkpoint_name, forked_name
from tests.support.archives import BINDING
from tests.support.device_logs import COLLECTOR, COLLECTOR_KEY, checkpoint, digest, frontier, log_entry

LOG = log_entry().log
DEVICE = f"0x{BINDING.address.hex()}"
NAME = checkpoint_name(BINDING.address, LOG)


def _warnings(landing: Path) -> tuple[list[Checkpoint], list[str]]:
    warnings: list[str] = []
    found = [each.checkpoint for each in read_checkpoints(landing, None, warnings.append)]
    return found, warnings


def test_the_checkpoints_of_a_landing_area_come_with_the_time_of_their_arrival(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    path = tmp_path / "site" / NAME
    path.write_bytes(checkpoint(3).to_bytes())
    os.utime(path, ns=(5_000_000, 5_000_000))
    (found,) = read_checkpoints(tmp_path, None, print)
    assert found == (checkpoint(3), 5)
    assert list(read_checkpoints(tmp_path, {DEVICE}, print)) == [found]
    assert list(read_checkpoints(tmp_path, {"0x00"}, print)) == [], "the device is not on the list"


def test_files_that_are_no_checkpoint_are_passed_over_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"nonsense")
    other = checkpoint_name(BINDING.address, bytes(16))
    (tmp_path / other).write_bytes(checkpoint(3).to_bytes())
    (tmp_path / "notes.checkpoint").write_bytes(b"")
    found, warnings = _warnings(tmp_path)
    assert found == []
    assert len(warnings) == 2
    assert f"{tmp_path / other}: this checkpoint is not used: it is of another device or log" in "\n".join(warnings)


def _receipt(number: int, log: bytes = LOG) -> bytes:
    statement = ReceiptStatement(
        archive=digest(number), size_bytes=1, device=BINDING.address, log=log, number=number, held_size=1,
        held_root=frontier(1).root, received_at_ms=1, collector_key=COLLECTOR_KEY,
    )  # fmt: skip
    return sign_receipt(statement, lambda message: COLLECTOR.sign(message).signature).to_bytes()


def test_receipts_of_archives_that_did_not_arrive_are_entered(tmp_path: Path) -> None:
    folder = tmp_path / BINDING.address.hex()
    folder.mkdir()
    for name, data in {"a": _receipt(1), "b": _receipt(2), "c": _receipt(0, bytes(16)), "d": b"nonsense"}.items():
        (folder / f"{name}.receipt").write_bytes(data)
    account = Account(logs={LogName("0xother", LOG.hex()): LogAccount(numbers=[(1, 2)])})
    account.add_checkpoints([(checkpoint(3), 1)])
    Beside(receipts=tmp_path).enter(account)
    assert account.logs[LogName(DEVICE, LOG.hex())].received == [(1, 3)]
    assert account.logs[LogName("0xother", LOG.hex())].received == []


def test_a_log_that_the_collector_marked_is_forked(tmp_path: Path) -> None:
    (tmp_path / forked_name(BINDING.address, LOG)).touch()
    (tmp_path / "notes.forked").touch()
    (found,) = read_forks(tmp_path)
    account = Account()
    Beside(forked=(found,)).enter(account)
    assert account.logs[LogName(DEVICE, LOG.hex())].is_forked
