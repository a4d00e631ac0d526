"""`headgate collector logs`: what is held of each device log, what is missing, and what is still on the device.

It only reads the files of the state, so it works beside a running collector.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ingest.collector.devices import AllowList
from ingest.collector.log_state import Fork, LogState
from ingest.collector.logs import CHECKPOINT, STATE, read_checkpoint, read_state
from protocol.devicelog.answer import NumberRange
from protocol.devicelog.checkpoint import Checkpoint
from protocol.errors import WireError
from protocol.ethereum import checksum_address
from protocol.shown_text import utc_text

SHOWN_LOG_DIGITS: Final = 12
SHOWN_RANGES: Final = 4
_HEADINGS: Final = (
    *("log", "archives", "held up to", "missing", "last contact", "last checkpoint", "size", "produced"),
    *("not archived", "waiting"),
)
_GAP: Final = "  "


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReport:
    """One log, as the collector's files describe it."""

    device: str  # its address
    label: str
    log: str  # in hex
    problem: str = ""  # why its files cannot be read; then nothing else is known
    state: LogState | None = None
    last_contact_ms: int = 0
    checkpoint: Checkpoint | None = None
    checkpoint_received_at_ms: int = 0
    continued_by: Sequence[str] = ()

    def as_dict(self) -> dict[str, object]:
        named: dict[str, object] = {"device": self.device, "label": self.label, "log": self.log}
        if self.state is None:
            return {**named, "problem": self.problem}
        state = self.state
        return {
            **named,
            "previous_log": state.previous_log.hex() or None,
            "continued_by": list(self.continued_by),
            "held_size": state.frontier.size,
            "held_root": state.frontier.root.hex(),
            "archives": state.archives,
            "replaced": state.replaced,
            "missing": [list(each) for each in state.missing()],
            "missing_readings": state.missing_readings,
            "first_contact_ms": state.first_contact_ms,
            "last_contact_ms": self.last_contact_ms,
            "checkpoint": self._checkpoint_as_dict(),
            "forks": [_fork_as_dict(each) for each in state.forks],
            "forks_found": state.forks_found,
        }

    def _checkpoint_as_dict(self) -> dict[str, object] | None:
        if self.checkpoint is None:
            return None
        return {
            "received_at_ms": self.checkpoint_received_at_ms,
            "made_at_ms": self.checkpoint.made_at_ms,
            "size": self.checkpoint.size,
            "produced": self.checkpoint.produced,
            "lost": sum(each.lost for each in self.checkpoint.lanes),
            "not_archived": not_archived(self.checkpoint),
            "waiting": self.checkpoint.waiting,
            "waiting_bytes": self.checkpoint.waiting_bytes,
            "agent_version": self.checkpoint.agent_version,
        }

    def row(self) -> tuple[str, ...]:
        if self.state is None:
            return (self.log[:SHOWN_LOG_DIGITS], *("-" for _ in _HEADINGS[1:]))
        return (
            self.log[:SHOWN_LOG_DIGITS],
            f"{self.state.archives:,}",
            f"{self.state.frontier.size:,}",
            _missing_text(self.state),
            _time_text(self.last_contact_ms),
            *self._checkpoint_row(),
        )

    def _checkpoint_row(self) -> tuple[str, ...]:
        if self.checkpoint is None:
            return ("none", "-", "-", "-", "-")
        stated = self.checkpoint
        numbers = (stated.size, stated.produced, not_archived(stated), stated.waiting)
        return (_time_text(self.checkpoint_received_at_ms), *(f"{number:,}" for number in numbers))

    def notes(self) -> Iterator[str]:
        """Whole sentences, for what is unusual."""
        if self.state is None:
            yield f"CANNOT BE READ: {self.problem}"
            return
        for each in self.state.forks:
            yield f"FORKED, found at {_time_text(each.found_at_ms)}: {each.contradiction}"
        if self.state.forks_found > len(self.state.forks):
            yield f"FORKED: {self.state.forks_found - len(self.state.forks)} more"
        if self.state.replaced:
            yield f"{self.state.replaced} archives were damaged on the device; later ones hold their readings"
        if self.state.previous_log:
            yield f"continues log {self.state.previous_log.hex()[:SHOWN_LOG_DIGITS]}"
        for log in self.continued_by:
            yield f"continued by log {log[:SHOWN_LOG_DIGITS]}"


def not_archived(checkpoint: Checkpoint) -> int:
    """Readings in the device's journal that no archive covers yet."""
    return sum(each.committed - each.archived for each in checkpoint.lanes)


def read_reports(logs: Path, allow_list: AllowList, device: bytes | None = None) -> Iterator[LogReport]:
    """The logs of one device or of all, by device and first contact. Raises: OSError."""
    for folder in sorted(logs.glob("*" if device is None else device.hex())):
        address = bytes.fromhex(folder.name)
        entry = allow_list.find(address)
        label = "" if entry is None else entry.label
        reports = [_read(path, checksum_address(address), label) for path in sorted(folder.glob(f"*/{STATE}"))]
        yield from _with_continuations(sorted(reports, key=_first_contact_ms))


def as_table(reports: Sequence[LogReport]) -> str:
    """One table for each device."""
    lines: list[str] = []
    for name in dict.fromkeys((each.device, each.label) for each in reports):
        lines.append(_GAP.join(filter(None, name)))
        lines += _table_of([each for each in reports if each.device == name[0]])
    return "\n".join(lines)


def _table_of(reports: Sequence[LogReport]) -> Iterator[str]:
    rows = [_HEADINGS, *(each.row() for each in reports)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        _GAP + _GAP.join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    yield lines[0]
    for line, report in zip(lines[1:], reports, strict=True):
        yield line
        yield from (f"{_GAP}{_GAP}{note}" for note in report.notes())


def _read(path: Path, device: str, label: str) -> LogReport:
    log = path.parent.name
    try:
        checkpoint = read_checkpoint(path.with_name(CHECKPOINT))
        return LogReport(
            device=device,
            label=label,
            log=log,
            state=read_state(path),
            last_contact_ms=_modified_ms(path),
            checkpoint=checkpoint,
            checkpoint_received_at_ms=0 if checkpoint is None else _modified_ms(path.with_name(CHECKPOINT)),
        )
    except WireError as error:
        return LogReport(device=device, label=label, log=log, problem=str(error))


def _with_continuations(reports: Sequence[LogReport]) -> Iterator[LogReport]:
    continued: dict[str, list[str]] = {}
    for each in reports:
        if each.state is not None:
            continued.setdefault(each.state.previous_log.hex(), []).append(each.log)
    for each in reports:
        yield dataclasses.replace(each, continued_by=tuple(continued.get(each.log, ())))


def _first_contact_ms(report: LogReport) -> int:
    return 0 if report.state is None else report.state.first_contact_ms


def _modified_ms(path: Path) -> int:
    return path.stat().st_mtime_ns // 1_000_000


def _missing_text(state: LogState) -> str:
    missing = state.missing()
    if not missing:
        return "none"
    more = ", …" if len(missing) > SHOWN_RANGES else ""
    readings = f" ({state.missing_readings:,} readings)" if state.missing_readings else ""
    return ", ".join(_range_text(each) for each in missing[:SHOWN_RANGES]) + more + readings


def _range_text(numbers: NumberRange) -> str:
    return f"{numbers.first}" if numbers.next == numbers.first + 1 else f"{numbers.first}-{numbers.next - 1}"


def _time_text(timestamp_ms: int) -> str:
    return utc_text(timestamp_ms)[:19]


def _fork_as_dict(fork: Fork) -> dict[str, object]:
    subject, number, held, other = fork.contradiction
    return {
        "subject": str(subject),
        "number": number,
        "held": held.hex(),
        "other": other.hex(),
        "found_at_ms": fork.found_at_ms,
    }
