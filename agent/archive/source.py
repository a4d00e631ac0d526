"""What the archiver needs to see of the journal's records and losses; the journal's own types fit as they are."""

from collections.abc import Sequence
from typing import Protocol

from protocol.archive import Loss, Record, Reference


class JournalRecord(Protocol):
    @property
    def position(self) -> int: ...
    @property
    def lane(self) -> int: ...
    @property
    def payload(self) -> bytes: ...
    @property
    def chain(self) -> str: ...
    @property
    def time_ms(self) -> int: ...
    @property
    def sequence(self) -> int: ...


class JournalLoss(Protocol):
    @property
    def lane(self) -> int: ...
    @property
    def chain(self) -> str: ...
    @property
    def first_position(self) -> int: ...
    @property
    def last_position(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def first(self) -> Sequence[int] | None: ...
    @property
    def last(self) -> Sequence[int] | None: ...


def to_archive_record(record: JournalRecord, *, arrived_at_ms: int | None = None) -> Record:
    """Where nothing else is known of its arrival, a message arrived at its own timestamp."""
    return Record(
        text=record.payload,
        chain=record.chain,
        timestamp_ms=record.time_ms,
        sequence=record.sequence,
        lane=record.lane,
        position=record.position,
        arrived_at_ms=record.time_ms if arrived_at_ms is None else arrived_at_ms,
    )


def to_archive_loss(loss: JournalLoss, *, number: int, reason: str) -> Loss:
    return Loss(
        number=number,
        lane=loss.lane,
        chain=loss.chain,
        first_position=loss.first_position,
        last_position=loss.last_position,
        count=loss.count,
        first=None if loss.first is None else Reference(*loss.first),
        last=None if loss.last is None else Reference(*loss.last),
        reason=reason,
    )
