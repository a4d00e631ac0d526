"""Which messages of a chain are there, told by their runs.

A span is a run of messages of which each names the one before it as its predecessor. A chain is a set of spans, and
what lies between two of them is a hole. The state of a chain is therefore as small as its holes are few, however long
it is: no message has to be looked up to know whether its predecessor came.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

Ref = tuple[int, int]  # timestamp in ms, sequence number


class Span(NamedTuple):
    first: Ref
    last: Ref
    previous: Ref | None  # what the first message names as its predecessor
    first_position: int | None = None  # in the ioMessage chain; None where the run's positions do not count up by one
    last_position: int | None = None
    previous_hash: str | None = None
    last_hash: str | None = None
    broken_links: int = 0  # where two runs met and the hash chain does not go on
    first_place: int | None = None  # where the first and the last message stood in the device's journal
    last_place: int | None = None

    def follows(self, other: "Span") -> bool:
        """Whether nothing is missing between the other span and this one, which begins later."""
        return self.first <= other.last or (self.previous is not None and self.previous <= other.last)


class Hole(NamedTuple):
    after: Ref | None  # the last message before it; None where the chain begins with the hole
    last: Ref  # the last message that is missing
    before: Ref  # the first message after it
    missing: int | None  # how many, where the positions tell
    places: tuple[int, int] | None = None  # in the device's journal, of the messages around it; -1 before the first


def unite(spans: Iterable[Span]) -> list[Span]:
    """The fewest spans that hold the same messages, in order."""
    united: list[Span] = []
    for span in sorted(spans, key=lambda each: (each.first, each.last)):
        if united and span.follows(united[-1]):
            united[-1] = _join(united[-1], span)
        else:
            united.append(span)
    return united


def _join(left: Span, right: Span) -> Span:
    if right.last <= left.last:
        return left._replace(broken_links=max(left.broken_links, right.broken_links))
    broken = left.broken_links + right.broken_links + _link_is_broken(left, right)
    return left._replace(
        last=right.last,
        last_position=_last_position(left, right),
        last_hash=right.last_hash,
        broken_links=broken,
        last_place=right.last_place,
    )


def _link_is_broken(left: Span, right: Span) -> bool:
    meets = right.previous == left.last and right.first > left.last
    both_linked = left.last_hash is not None and right.first_position is not None
    return meets and both_linked and right.previous_hash != left.last_hash


def _last_position(left: Span, right: Span) -> int | None:
    return None if left.last_position is None or right.last_position is None else right.last_position


def holes_between(spans: list[Span]) -> list[Hole]:
    """The holes of a chain whose spans are united, in order; one before the first where that names a predecessor."""
    holes = []
    before: Span | None = None
    for span in spans:
        if span.previous is not None:
            missing, places = _missing(before, span), _places(before, span)
            holes.append(Hole(before and before.last, span.previous, span.first, missing, places))
        before = span
    return holes


def _missing(left: Span | None, right: Span) -> int | None:
    if right.first_position is None or (left is not None and left.last_position is None):
        return None
    missing = right.first_position - (-1 if left is None or left.last_position is None else left.last_position) - 1
    return missing if missing > 0 else None


def _places(left: Span | None, right: Span) -> tuple[int, int] | None:
    after = -1 if left is None else left.last_place
    return None if after is None or right.first_place is None else (after, right.first_place)


def overlaps(spans: list[Span], span: Span) -> bool:
    """Whether a message of the span could be in the spans, which are united and in order, already."""
    index = bisect_right(spans, span.last, key=lambda each: each.first)
    return index > 0 and spans[index - 1].last >= span.first
