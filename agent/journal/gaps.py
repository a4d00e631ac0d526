"""What was lost, kept until the agent has told the world, and knows that it was heard.

A gap is immutable and has a number that is never used again. It leaves only when it is acknowledged, so it is told at
least once; the number lets the receiver see a repetition. The list is bounded: when it is full, gaps are joined under a
new number, first those of one chain, then those of one lane; those that somebody has taken only if that is not enough,
for what they became is told once more.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from agent.journal.records import Loss, joined
from protocol.reference import Reference

MAX_PENDING_GAPS = 64


class Cause(StrEnum):
    SHED = "shed"  # dropped, oldest first, to make room
    THINNED = "thinned"  # every second one dropped to make room
    NO_ROOM = "no room"  # never stored: everything stored was more important
    DAMAGED = "damaged"  # the medium did not give back what was written


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    number: int
    loss: Loss
    cause: Cause
    missed_by: tuple[str, ...]  # the cursors that had not passed all of it; the others have seen what is lost here
    kept_by: tuple[str, ...] = ()  # of these, the cursors that had a copy of all of it

    def to_json(self) -> dict[str, Any]:
        loss = asdict(self.loss)
        loss["first"], loss["last"] = (None if end is None else list(end) for end in (self.loss.first, self.loss.last))
        cursors = {"missed_by": self.missed_by, "kept_by": self.kept_by}
        return {"number": self.number, "loss": loss, "cause": self.cause, **cursors}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Gap":
        """Raises: KeyError, TypeError or ValueError if the values were not made by `to_json`."""
        loss = dict(values["loss"])
        loss["first"], loss["last"] = (
            None if loss[end] is None else Reference(*loss[end]) for end in ("first", "last")
        )
        return cls(
            number=int(values["number"]),
            loss=Loss(**loss),
            cause=Cause(values["cause"]),
            missed_by=tuple(values["missed_by"]),
            kept_by=tuple(values["kept_by"]),
        )


class GapLedger:
    """The pending gaps, in the order of their numbers."""

    def __init__(self, pending: Iterable[Gap] = (), next_number: int = 1) -> None:
        self._pending = {gap.number: gap for gap in pending}
        self._taken: set[int] = set()
        self.next_number = next_number

    def record(
        self, losses: Iterable[Loss], cause: Cause, missed_by: tuple[str, ...], kept_by: tuple[str, ...] = ()
    ) -> None:
        for loss in losses:
            self._add(loss, cause, missed_by, kept_by)
        for is_spared in (self._taken.__contains__, lambda _: False):
            for key in (_of_one_chain, _of_one_lane):
                if len(self._pending) > MAX_PENDING_GAPS:
                    self._join_by(key, is_spared)

    def pending(self) -> tuple[Gap, ...]:
        return tuple(self._pending.values())

    def take(self) -> tuple[Gap, ...]:
        """All pending gaps. What was taken is joined with others only in need."""
        self._taken.update(self._pending)
        return self.pending()

    def acknowledge(self, number: int) -> None:
        self._pending.pop(number, None)
        self._taken.discard(number)

    def _add(self, loss: Loss, cause: Cause, missed_by: tuple[str, ...], kept_by: tuple[str, ...]) -> None:
        gap = Gap(number=self.next_number, loss=loss, cause=cause, missed_by=missed_by, kept_by=kept_by)
        self._pending[self.next_number] = gap
        self.next_number += 1

    def _join_by(self, key: Callable[[Gap], Hashable], is_spared: Callable[[int], bool]) -> None:
        groups: dict[Hashable, list[Gap]] = {}
        for gap in self._pending.values():
            if not is_spared(gap.number):
                groups.setdefault(key(gap), []).append(gap)
        for group in groups.values():
            if len(group) > 1:
                self._join(group)

    def _join(self, group: list[Gap]) -> None:
        loss = group[0].loss
        for gap in group[1:]:
            loss = joined(loss, gap.loss)
        for gap in group:
            self.acknowledge(gap.number)
        missed_by = tuple(dict.fromkeys(name for gap in group for name in gap.missed_by))
        self._add(loss, group[0].cause, missed_by, group[0].kept_by)


def _of_one_chain(gap: Gap) -> Hashable:
    return gap.cause, gap.loss.lane, gap.loss.chain, gap.missed_by, gap.kept_by


def _of_one_lane(gap: Gap) -> Hashable:
    return gap.cause, gap.loss.lane, gap.kept_by
