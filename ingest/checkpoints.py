"""Checkpoints and receipts beside the archives: how long the logs of the devices are, and what the collector had.

A landing area holds the newest checkpoint of each log as `<device>-<log>.checkpoint`, from the collector or from a
device that ships to a directory. Receipts are read only for devices of which archives are missing.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ingest.account import Account
from ingest.device_logs import LogAccount, LogName, Range, unite
from protocol.archive.receipt import Receipt
from protocol.devicelog.checkpoint import MAX_CHECKPOINT_BYTES, Checkpoint
from protocol.errors import WireError
from protocol.shipping import CHECKPOINT_SUFFIX, FORKED_SUFFIX, MAX_RECEIPT_BYTES, log_in_name

Warn = Callable[[str], None]


class LandedCheckpoint(NamedTuple):
    checkpoint: Checkpoint
    landed_at_ms: int


@dataclass(frozen=True, slots=True)
class Beside:
    """What lies beside the archives, as it was read before they were listed."""

    checkpoints: tuple[LandedCheckpoint, ...] = ()
    forked: tuple[LogName, ...] = ()  # the logs that the collector found forked
    receipts: Path | None = None  # the collector's

    def enter(self, account: Account) -> None:
        account.add_checkpoints(self.checkpoints)
        for name in self.forked:
            account.logs.setdefault(name, LogAccount()).is_forked = True
        if self.receipts is not None:
            note_receipts(account.logs, self.receipts)


def read_checkpoints(landing: Path, devices: Collection[str] | None, warn: Warn) -> Iterator[LandedCheckpoint]:
    """The checkpoints of these devices, or of all; a file that is not what its name says is passed over."""
    for path in sorted(landing.rglob(f"*{CHECKPOINT_SUFFIX}")):
        try:
            found = _read_checkpoint(path)
        except (WireError, OSError) as error:
            warn(f"{path}: this checkpoint is not used: {error}")
            continue
        if found is not None and (devices is None or f"0x{found.checkpoint.device.hex()}" in devices):
            yield found


def _read_checkpoint(path: Path) -> LandedCheckpoint | None:
    """None for a file that the name does not show as one. Raises: WireError, OSError."""
    named = log_in_name(path.name)
    if named is None:
        return None
    with path.open("rb") as file:
        checkpoint = Checkpoint.from_bytes(file.read(MAX_CHECKPOINT_BYTES + 1))
    if (checkpoint.device, checkpoint.log) != named:
        raise WireError("it is of another device or log than its name says")
    return LandedCheckpoint(checkpoint, path.stat().st_mtime_ns // 1_000_000)


def read_forks(landing: Path) -> Iterator[LogName]:
    """The logs that the collector has marked as forked."""
    for path in sorted(landing.rglob(f"*{FORKED_SUFFIX}")):
        named = log_in_name(path.name, FORKED_SUFFIX)
        if named is not None:
            device, log = named
            yield LogName(f"0x{device.hex()}", log.hex())


def note_receipts(logs: Mapping[LogName, LogAccount], receipts: Path) -> None:
    """Enter which archives that did not arrive have a receipt."""
    for name, account in logs.items():
        if account.missing_numbers():
            account.received = unite(_numbers_in_receipts(receipts / name.device.removeprefix("0x"), name.log))


def _numbers_in_receipts(folder: Path, log: str) -> Iterator[Range]:
    for path in sorted(folder.glob("*.receipt")):
        try:
            with path.open("rb") as file:
                receipt = Receipt.from_bytes(file.read(MAX_RECEIPT_BYTES + 1))
        except (WireError, OSError):
            continue
        if receipt.log.hex() == log:
            yield receipt.number, receipt.number + 1
