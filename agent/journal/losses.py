"""Losses that wait to be reported, and for the acknowledgement that the report was received.

A recorded loss is immutable and stays until it is acknowledged, so it is reported at least once. Its number is a digest
of the journal, of a count, and of the loss itself, so that a repeated report is recognised, and a journal that was
cloned, restored from an old copy or rebuilt does not use the number of one loss for another.

The list is bounded. Only so many losses are reported at a time; further ones wait, and when too many wait they are
joined under a new number, first those of one chain, then those of one lane. A loss that was reported is never joined,
so the counts of distinct numbers add up to what was lost.
"""

import hashlib
from collections.abc import Callable, Hashable, Iterable
from dataclasses import asdict, astuple, dataclass, replace
from typing import Any

from agent.journal.records import joined
from protocol.losses import Cause, Loss
from protocol.reference import Reference

MAX_REPORTED_LOSSES = 32  # reported and not acknowledged yet
MAX_UNREPORTED_LOSSES = 32  # beyond that they are joined
MAX_PENDING_LOSSES = MAX_REPORTED_LOSSES + MAX_UNREPORTED_LOSSES


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingLoss:
    """A loss, and the cursors that it concerns."""

    loss: Loss
    missed_by: tuple[str, ...]  # the cursors that had not acknowledged all of it
    copied_by: tuple[str, ...] = ()  # of these, the cursors that had a copy of all of it

    @property
    def number(self) -> int:
        return self.loss.number

    def to_json(self) -> dict[str, Any]:
        loss = asdict(self.loss)
        loss["first"], loss["last"] = (None if end is None else list(end) for end in (self.loss.first, self.loss.last))
        number, cause = loss.pop("number"), loss.pop("cause")
        return {
            "number": number,
            "loss": loss,
            "cause": cause,
            "missed_by": self.missed_by,
            "copied_by": self.copied_by,
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "PendingLoss":
        """Raises: KeyError, TypeError or ValueError if the values were not made by `to_json`."""
        loss = dict(values["loss"])
        loss["first"], loss["last"] = (
            None if loss[end] is None else Reference(*loss[end]) for end in ("first", "last")
        )
        return cls(
            loss=Loss(**loss, number=int(values["number"]), cause=Cause(values["cause"])),
            missed_by=tuple(values["missed_by"]),
            copied_by=tuple(values["copied_by"]),
        )


class LossLedger:
    """The pending losses, in the order in which they were recorded."""

    def __init__(
        self, journal_id: int, pending: Iterable[PendingLoss] = (), reported: Iterable[int] = (), next_count: int = 1
    ) -> None:
        self._journal_id = journal_id
        self._pending = {each.number: each for each in pending}
        self._reported = {number for number in reported if number in self._pending}
        self.next_count = next_count

    def record(self, losses: Iterable[Loss], missed_by: tuple[str, ...], copied_by: tuple[str, ...] = ()) -> None:
        for loss in losses:
            self._add(loss, missed_by, copied_by)
        for key in (_of_one_chain, _of_one_lane):
            if len(self._pending) - len(self._reported) > MAX_UNREPORTED_LOSSES:
                self._join_by(key)

    def pending(self) -> tuple[PendingLoss, ...]:
        return tuple(self._pending.values())

    def reported(self) -> tuple[PendingLoss, ...]:
        return tuple(each for each in self._pending.values() if each.number in self._reported)

    def report_more(self) -> list[int]:
        """Mark more losses as reported, the oldest first, up to the limit. Returns their numbers.

        They must be marked as reported on the medium before a caller sees them; otherwise call `unreport`.
        """
        free = MAX_REPORTED_LOSSES - len(self._reported)
        more = [number for number in self._pending if number not in self._reported][: max(0, free)]
        self._reported.update(more)
        return more

    def unreport(self, numbers: Iterable[int]) -> None:
        self._reported.difference_update(numbers)

    def acknowledge(self, number: int) -> None:
        self._pending.pop(number, None)
        self._reported.discard(number)

    def _add(self, loss: Loss, missed_by: tuple[str, ...], copied_by: tuple[str, ...]) -> None:
        loss = replace(loss, number=_number(self._journal_id, self.next_count, loss))
        self._pending[loss.number] = PendingLoss(loss=loss, missed_by=missed_by, copied_by=copied_by)
        self.next_count += 1

    def _join_by(self, key: Callable[[PendingLoss], Hashable]) -> None:
        groups: dict[Hashable, list[PendingLoss]] = {}
        for pending in self._pending.values():
            if pending.number not in self._reported:
                groups.setdefault(key(pending), []).append(pending)
        for group in groups.values():
            if len(group) > 1:
                self._join(group)

    def _join(self, group: list[PendingLoss]) -> None:
        loss = group[0].loss
        for pending in group[1:]:
            loss = joined(loss, pending.loss)
        for pending in group:
            self.acknowledge(pending.number)
        missed_by = tuple(dict.fromkeys(name for pending in group for name in pending.missed_by))
        self._add(loss, missed_by, group[0].copied_by)


def _number(journal_id: int, count: int, loss: Loss) -> int:
    """63 bits. The count distinguishes losses of one journal that are equal otherwise."""
    identity = repr((journal_id, count, *astuple(replace(loss, number=0))))
    return int.from_bytes(hashlib.sha256(identity.encode()).digest()[:8]) >> 1


def _of_one_chain(pending: PendingLoss) -> Hashable:
    return pending.loss.cause, pending.loss.lane, pending.loss.chain, pending.missed_by, pending.copied_by


def _of_one_lane(pending: PendingLoss) -> Hashable:
    return pending.loss.cause, pending.loss.lane, pending.copied_by
