"""A lane: its segments in order, the place of the next block, and a reader that passes over damage."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from agent.journal.disk import Disk
from agent.journal.layout import PAGE_BYTES, Head, decode_block
from agent.journal.records import Record, damage
from agent.journal.segments import Found, Owner, find_block
from agent.journal.state import Segment
from protocol.losses import Loss


class Lane:
    """The segments of one lane, oldest first. The last one is written to, unless it was retired."""

    def __init__(self, number: int, segments: list[Segment], next_position: int) -> None:
        self.number = number
        self.segments = segments
        self.next_position = next_position  # of the next entry to be committed
        self.write_page: int | None = None  # in the last segment; None if the next block needs a new one
        self.doubtful: Head | None = None  # the last block, while only the page cache may have it
        self.changes = 0  # rises when records leave, so that a reader ahead knows

    @property
    def durable_position(self) -> int:
        """Below this everything is on the medium, and may be read."""
        return self.next_position if self.doubtful is None else self.doubtful.first_position

    @property
    def first_position(self) -> int:
        """Of the oldest record there may be."""
        return self.segments[0].first_position if self.segments else self.next_position

    def used_bytes(self, pages: Mapping[int, int]) -> int:
        """On the medium, where `pages` says how many each segment file has."""
        *full, last = [pages.get(segment.file, 0) for segment in self.segments] or [0]
        return PAGE_BYTES * (sum(full) + (last if self.write_page is None else self.write_page))

    def index_at(self, position: int) -> int:
        """The index of the segment that covers `position`, or of the oldest if all are later."""
        return max(0, bisect_right(self.segments, position, key=lambda segment: segment.first_position) - 1)

    def end_of(self, index: int) -> int:
        """The position after the last one that the segment covers."""
        following = self.segments[index + 1 : index + 2]
        return min(following[0].first_position, self.next_position) if following else self.next_position


class Chunk(NamedTuple):
    """The content of a lane from the requested position up to `end_position`."""

    records: list[Record]
    losses: list[Loss]  # all of the block or of the gap, also before the requested position
    end_position: int
    segment: Segment | None  # None if the requested position is before the oldest segment
    written_at_ms: int = 0


class _Place(NamedTuple):
    """Where the next block of a segment is to begin."""

    segment_id: int
    position: int
    page: int = 0
    left_out: int = 0  # positions of the segment before it


class LaneReader:
    """Reads one lane block by block. It holds the place of the next block, so reading on is cheap."""

    def __init__(self, disk: Disk, journal_id: int, lane: Lane, pages: Mapping[int, int]) -> None:
        self._disk = disk
        self._journal_id = journal_id
        self.lane = lane
        self._pages = pages  # how many each segment file has
        self._expected = _Place(0, 0)

    def read(self, position: int) -> Chunk:
        """The next chunk at or after `position`, which must be below the lane's next position."""
        index = self.lane.index_at(position)
        segment = self.lane.segments[index]
        if position < segment.first_position:
            return Chunk([], [], segment.first_position, None)
        end_position = self.lane.end_of(index)
        found, place = self._find(segment, position, self._end_page(index))
        if found is None or found.head.first_position > position:
            return self._gap(segment, place, found, end_position)
        self._expected = _after(found.head)
        return _chunk(segment, found, position, end_position)

    def chunks(self, position: int, end_position: int) -> Iterator[Chunk]:
        """Everything from `position` up to `end_position`, chunk by chunk."""
        while position < end_position and self.lane.segments:
            chunk = self.read(position)
            yield chunk
            position = chunk.end_position

    def _find(self, segment: Segment, position: int, end_page: int) -> tuple[Found | None, _Place]:
        """The first block whose end lies beyond `position`, and where the previous one ends."""
        place = self._expected
        if (place.segment_id, place.position) != (segment.id, position):
            place = _Place(segment.id, segment.first_position)
        owner = Owner(self._journal_id, segment.id)
        while (found := find_block(self._disk, segment.file, owner, place.page, end_page)) is not None:
            if found.head.end_position > position:
                break
            place = _after(found.head, place.position)
        return found, place

    def _gap(self, segment: Segment, place: _Place, found: Found | None, end_position: int) -> Chunk:
        """What lies between two blocks, or between the last one and the end, is lost; but for what was left out."""
        end, left_out = end_position, segment.left_out
        if found is not None:
            end, left_out = min(found.head.first_position, end_position), found.head.left_out
        count = end - place.position - max(0, left_out - place.left_out)
        losses = [damage(self.lane.number, place.position, end, count)] if count > 0 else []
        return Chunk([], losses, end, segment)

    def _end_page(self, index: int) -> int:
        is_last = index == len(self.lane.segments) - 1
        if is_last and self.lane.write_page is not None:
            return self.lane.write_page
        return self._pages.get(self.lane.segments[index].file, 0)


def _after(head: Head, position: int = 0) -> _Place:
    return _Place(head.segment_id, max(position, head.end_position), head.end_page, head.left_out_at_end)


def _chunk(segment: Segment, found: Found, position: int, end_position: int) -> Chunk:
    head = found.head
    records, losses = decode_block(head, found.block)
    if head.first_position < position or head.end_position > end_position:
        records = [record for record in records if record.next_position > position and record.position < end_position]
        losses = [loss for loss in losses if loss.first_position < end_position]
    return Chunk(records, losses, min(head.end_position, end_position), segment, head.written_at_ms)
