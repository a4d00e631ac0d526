"""Read what is committed, as it is committed, from outside: without a lock, and without holding anything back.

A follower is no cursor: the journal does not know of it and waits for nobody. It remembers in which block of each lane
it stands, so a look costs what is new and not what is there. What the journal let go before it came by is passed over.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from agent.journal.disk import Disk
from agent.journal.inspection import View, look
from agent.journal.layout import HEAD_BYTES, MAX_TABLE_BYTES, PAGE_BYTES, decode_block, parse_head
from agent.journal.pool import file_name, segment_pages
from agent.journal.records import Record
from agent.journal.segment import Found, Owner, find_block
from agent.journal.state import Segment, StateFiles

__all__ = ["Follower"]


@dataclass(slots=True)
class _Place:
    """Where it stands in a lane."""

    position: int = 0  # of the next record to give
    segment_id: int = 0
    page: int = 0  # of the next block in that segment


class Follower:
    """Begins `records` before the end of each lane as `view` found it. A lane that comes later is read from its first.

    `new_records` wants a disk that was opened anew: files come and go under the same name.
    """

    def __init__(self, view: View, records: int = 0) -> None:
        self._places = {number: _Place(lane.next_position - records) for number, lane in view.lanes.items()}

    def new_records(self, disk: Disk) -> Iterator[Record]:
        """What came since the last call, lane by lane. Raises: OSError if the directory cannot be read."""
        state, pages = StateFiles(disk, 0).load() or look(disk).state, segment_pages(disk)
        for number, lane in sorted(state.lanes.items()):
            place = self._places.setdefault(number, _Place())
            for segment, following in zip(lane.segments, [*lane.segments[1:], None], strict=True):
                if following is None or following.first_position > place.position:
                    reading = _SegmentReading(
                        disk, pages, Owner(state.journal_id, segment.id), segment, is_last=following is None
                    )
                    yield from reading.records(place)


@dataclass(frozen=True, slots=True)
class _SegmentReading:
    disk: Disk
    pages: Mapping[int, int]
    owner: Owner
    segment: Segment
    is_last: bool

    def records(self, place: _Place) -> Iterator[Record]:
        """From the place on, moving it."""
        if place.segment_id != self.segment.id:
            place.segment_id, place.page = self.segment.id, 0
        while (found := self._next_block(place.page)) is not None:
            first, place.position = place.position, max(place.position, found.head.end_position)
            place.page = found.head.end_page
            yield from (record for record in decode_block(*found).records if record.position >= first)

    def _next_block(self, page: int) -> Found | None:
        """The next one that is written to its end. Whether it is shows in it, or in that another one follows it."""
        if not self.is_last:
            return self._find(page)
        found = self._find(page) if self._has_head(page) else None
        if found is None or not decode_block(*found).losses:
            return found
        return self._find(page) if self._has_head(found.head.end_page) else None

    def _find(self, page: int) -> Found | None:
        return find_block(self.disk, self.segment.file, self.owner, page, self.pages.get(self.segment.file, 0))

    def _has_head(self, page: int) -> bool:
        """Whether a block begins here: a look at one page, where `find_block` would search the rest of the file."""
        try:
            window = self.disk.read(file_name(self.segment.file), page * PAGE_BYTES, HEAD_BYTES + MAX_TABLE_BYTES)
        except OSError:
            return False
        head = parse_head(window)
        return head is not None and head.page == page and self.owner.owns(head)
