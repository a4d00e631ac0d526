"""What one archive amounts to, small enough for the driver: its device, its chains, and what the device says of itself.

The decoder sends one summary per archive beside the rows; gaps and ledger are made of summaries alone.
"""

from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import orjson

from ingest.reasons import Reason
from ingest.spans import Span
from protocol import strict_cbor
from protocol.archive.limits import MANIFEST_BOUNDS
from protocol.devicelog.entry import LogEntry
from protocol.losses import Loss
from protocol.reference import Reference

VERIFIED = "verified"
DAMAGED = "damaged"
UNLOCKED = "unlocked"  # of an archive of which more could be opened, with keys that came later
DUPLICATE = "duplicate"  # of a file that brought an archive again
KNOWN = "known"  # all of it was ingested before; nothing is done with it
RETRIED = frozenset(
    {
        Reason.ARCHIVE_MISNAMED,
        Reason.ARCHIVE_ENCRYPTED,
        Reason.ARCHIVE_UNSUPPORTED,  # by a later release, it may be
        Reason.DEVICE_UNKNOWN,
        Reason.DEVICE_MISMATCH,
    }
)  # may end otherwise another time


class Held(NamedTuple):
    """A message in quarantine."""

    timestamp_ms: int
    sequence: int
    readings: int


@dataclass(slots=True, kw_only=True)
class ChainSummary:
    """One chain of one archive, in readings. Each that its manifest counts is either valid or in quarantine."""

    archived: int
    valid: int = 0
    rejected: int = 0
    damaged: int = 0  # in blocks that could not be read
    held: list[Held] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)  # of the valid messages, in the order of the file
    unordered: bool = False  # whether a message could be in it twice
    forked: int = 0  # links that do not go on from the reading before
    lane: int | None = None  # of the journal; a chain has one


class Correction(NamedTuple):
    """What makes the times of one boot true. Of several for one boot, the one made last counts."""

    boot: str  # in hex
    made_at_ms: int  # on the counter that starts with the boot
    offset_ms: int  # UTC minus that counter


class Locked(NamedTuple):
    """What of an archive stays closed for want of keys."""

    keys: tuple[tuple[str, str], ...]  # streams and key ids
    first_ms: int  # of the messages concerned
    last_ms: int

    def to_json(self) -> str:
        return orjson.dumps(tuple(self)).decode()

    @classmethod
    def from_json(cls, text: str) -> "Locked":
        return _locked(orjson.loads(text))


def _locked(values: list[Any]) -> Locked:
    keys, first_ms, last_ms = values
    return Locked(tuple((stream, name) for stream, name in keys), first_ms, last_ms)


@dataclass(slots=True, kw_only=True)
class ArchiveSummary:
    archive: str
    path: str
    landed_at_ms: int
    size_bytes: int
    verdict: str = VERIFIED
    device: str | None = None
    journal: str | None = None
    created_at_ms: int | None = None
    records: int | None = None
    readings: int | None = None
    chains: dict[str, ChainSummary] = field(default_factory=dict)
    entry: LogEntry | None = None  # its place in the device log; None where its manifest could not be read
    lane_readings: dict[int, int] = field(default_factory=dict)  # by its manifest
    losses: list[tuple[str, Loss]] = field(default_factory=list)  # each with its journal
    corrections: list[Correction] = field(default_factory=list)
    boots: list[str] = field(default_factory=list)  # in which messages were made without knowing the time, in hex
    locked: Locked | None = None
    handed_over: list[tuple[str, str, str]] = field(default_factory=list, repr=False)  # stream, key id, key in hex

    def to_json(self) -> str:
        entry = self.entry and strict_cbor.encode(self.entry.to_cbor()).hex()
        lane_readings = list(self.lane_readings.items())
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return orjson.dumps({**values, "entry": entry, "lane_readings": lane_readings}, default=tuple).decode()

    @classmethod
    def from_json(cls, text: str) -> "ArchiveSummary":
        values: dict[str, Any] = orjson.loads(text)
        values["entry"] = values["entry"] and _entry_from_hex(values["entry"])
        values["lane_readings"] = dict(values["lane_readings"])
        values["chains"] = {name: _chain_from_json(chain) for name, chain in values["chains"].items()}
        values["losses"] = [(journal, loss_from_json(loss)) for journal, loss in values["losses"]]
        values["locked"] = values["locked"] and _locked(values["locked"])
        values["handed_over"] = [tuple(each) for each in values["handed_over"]]
        values["corrections"] = [Correction(*correction) for correction in values["corrections"]]
        return cls(**values)


def _entry_from_hex(text: str) -> LogEntry:
    return LogEntry.from_cbor(strict_cbor.decode(bytes.fromhex(text), MANIFEST_BOUNDS))


def _chain_from_json(values: dict[str, Any]) -> ChainSummary:
    held = [Held(*each) for each in values["held"]]
    return ChainSummary(**{**values, "held": held, "spans": [span_from_json(span) for span in values["spans"]]})


def span_from_json(values: list[Any]) -> Span:
    first, last, previous, *rest = values
    return Span(tuple(first), tuple(last), previous and tuple(previous), *rest)


def loss_from_json(values: dict[str, Any]) -> Loss:
    references = {name: values[name] and Reference(*values[name]) for name in ("first", "last")}
    return Loss(**{**values, **references})
