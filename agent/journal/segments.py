"""The segment files: allocated on demand, reused, never more than the cap allows; and the blocks in them.

A segment file has no header: each block describes itself, and is found whatever happened to the rest of the file. A
file that was written once is overwritten in place afterwards: that costs the card no file-system metadata, and a full
disk cannot refuse it. A file given back may still be named by the state on the medium, so the journal saves the state
before it writes to a file; only the reserve for thinning may be written to at once.
"""

import contextlib
import errno
from typing import NamedTuple

from agent.journal.disk import Disk, Readable, is_damage
from agent.journal.layout import (
    FOOT_MAGIC,
    HEAD_BYTES,
    HEAD_MAGIC,
    MAX_TABLE_BYTES,
    PAGE_BYTES,
    Head,
    parse_foot,
    parse_head,
)

SUFFIX = ".segment"
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
WINDOW_BYTES = 8 * PAGE_BYTES  # read at once; holds any head with its table, and most blocks
_HEAD_AND_TABLE_BYTES = HEAD_BYTES + MAX_TABLE_BYTES


def file_name(number: int) -> str:
    return f"{number:04d}{SUFFIX}"


def file_number(name: str) -> int | None:
    """The number in a segment file's name; None for any other name."""
    stem = name.removesuffix(SUFFIX)
    is_ours = name.endswith(SUFFIX) and stem.isascii() and stem.isdigit()
    return int(stem) if is_ours and file_name(int(stem)) == name else None


class SegmentPool:
    """Every segment file is live, spare, or the reserve for thinning."""

    def __init__(
        self,
        disk: Disk,
        *,
        segment_bytes: int,
        max_segments: int,
        spare_segments: int,
        keep_reserve: bool,
        min_free_bytes: int = 0,
    ) -> None:
        self._disk = disk
        self._segment_pages = segment_bytes // PAGE_BYTES
        self._max_bytes = max_segments * segment_bytes
        self._spare_segments = spare_segments
        self._min_free_bytes = min_free_bytes
        self.pages = segment_pages(disk)  # how many each file has
        self._spare = sorted(self.pages)
        self._keep_reserve = keep_reserve
        self._reserve: int | None = None

    @property
    def bytes_on_disk(self) -> int:
        return sum(self.pages.values()) * PAGE_BYTES

    @property
    def disk_shortfall_bytes(self) -> int:
        """How much less space the disk has than the cap allows."""
        return max(0, self._max_bytes - self.bytes_on_disk - self._disk_growth_bytes())

    def _disk_growth_bytes(self) -> int:
        try:
            return max(0, self._disk.free_bytes() - self._min_free_bytes)
        except OSError:
            return 0

    @property
    def is_over_cap(self) -> bool:
        return self.bytes_on_disk > self._max_bytes

    def claim(self, number: int) -> None:
        """Note on opening that a live segment is in this file. A missing file counts as empty."""
        self.pages.setdefault(number, 0)
        if number in self._spare:
            self._spare.remove(number)

    def take(self) -> int | None:
        """A file to write to once the state is saved, or None if there is no room for one. Raises: OSError."""
        for number in self._spare:
            if self.pages[number] == self._segment_pages:
                self._spare.remove(number)
                return number
        return self._make()

    def take_reserve(self) -> int | None:
        """The file reserved for thinning, which may be written at once; None if there was no space for one."""
        number, self._reserve = self._reserve, None
        return number

    def put_back_reserve(self, number: int) -> None:
        self._reserve = number

    def give_back(self, number: int) -> None:
        self._spare.append(number)

    def settle(self) -> None:
        """The state on the medium names no spare file: refill the reserve, delete what is too much. Raises: OSError."""
        for number in [spare for spare in self._spare if self.pages[spare] != self._segment_pages]:
            self._remove_spare(number)  # made under another setting, or not to the end before a crash
        if self._keep_reserve and self._reserve is None:
            self._reserve = self._spare.pop() if self._spare else self._make()
        while self._spare and (len(self._spare) > self._spare_segments or self.is_over_cap):
            self._remove_spare(self._spare[0])

    def _make(self) -> int | None:
        segment_bytes = self._segment_pages * PAGE_BYTES
        if self.bytes_on_disk + segment_bytes > self._max_bytes or segment_bytes > self._disk_growth_bytes():
            return None
        number = next(candidate for candidate in range(len(self.pages) + 1) if candidate not in self.pages)
        name = file_name(number)
        try:
            self._disk.create(name, segment_bytes)
        except OSError as error:
            if error.errno in _DISK_FULL:
                return None
            raise
        self._disk.sync(name)
        self._disk.sync_names()
        self.pages[number] = self._segment_pages
        return number

    def _remove_spare(self, number: int) -> None:
        self._spare.remove(number)
        self._disk.remove(file_name(number))
        del self.pages[number]


def segment_pages(disk: Disk) -> dict[int, int]:
    """How many pages each segment file on the disk has, by its number."""
    pages = {}
    for name in disk.names():
        number = file_number(name)
        if number is not None:
            with contextlib.suppress(FileNotFoundError):  # its writer may delete it meanwhile
                pages[number] = disk.size(name) // PAGE_BYTES
    return pages


class Found(NamedTuple):
    head: Head
    block: bytes  # all its pages, as they are on the disk


class Owner(NamedTuple):
    """Which blocks of a file are meant: those of this journal and this use of the file. None means any."""

    journal_id: int | None
    segment_id: int | None

    def owns(self, head: Head) -> bool:
        return self.journal_id in (None, head.journal_id) and self.segment_id in (None, head.segment_id)


ANYONE = Owner(None, None)


def find_block(disk: Readable, file: int, owner: Owner, page: int, end_page: int) -> Found | None:
    """The owner's first block from `page` on. Damage in between is skipped; it shows as missing positions."""
    name = file_name(file)
    if page >= end_page:
        return None
    window = _read(disk, name, page * PAGE_BYTES, WINDOW_BYTES)
    head = parse_head(window)
    if head is None or head.page != page or not owner.owns(head):
        head = _resynchronise(disk, name, owner, page, end_page)
    if head is None or head.end_page > end_page:
        return None
    return Found(head, _whole_block(disk, name, head, page, window))


def _whole_block(disk: Readable, name: str, head: Head, page: int, window: bytes) -> bytes:
    size = head.pages * PAGE_BYTES
    if head.page == page and size <= len(window):
        return window[:size]
    return _read(disk, name, head.page * PAGE_BYTES, size)


def _resynchronise(disk: Readable, name: str, owner: Owner, page: int, end_page: int) -> Head | None:
    """Search every page: it may start with a head, or end with the foot of a block whose head is damaged."""
    for start in range(page, end_page, WINDOW_BYTES // PAGE_BYTES):
        window = _read(disk, name, start * PAGE_BYTES, WINDOW_BYTES)
        for number in range(len(window) // PAGE_BYTES):
            content = window[number * PAGE_BYTES : (number + 1) * PAGE_BYTES]
            head = _head_at(disk, name, start + number, content) or _foot_at(disk, name, start + number, content)
            if head is not None and owner.owns(head) and head.page >= page:
                return head
    return None


def _head_at(disk: Readable, name: str, page: int, content: bytes) -> Head | None:
    if not content.startswith(HEAD_MAGIC):
        return None
    head = parse_head(_read(disk, name, page * PAGE_BYTES, _HEAD_AND_TABLE_BYTES))
    return head if head is not None and head.page == page else None


def _foot_at(disk: Readable, name: str, page: int, content: bytes) -> Head | None:
    if content[-HEAD_BYTES:][:4] != FOOT_MAGIC:
        return None
    end = (page + 1) * PAGE_BYTES
    start = max(0, end - _HEAD_AND_TABLE_BYTES)
    foot = parse_foot(_read(disk, name, start, end - start))
    return foot if foot is not None and foot.end_page == page + 1 else None


def read_page(disk: Readable, name: str, page: int) -> bytes:
    """Empty if it cannot be read. Raises: OSError if that is no damage."""
    return _read(disk, name, page * PAGE_BYTES, PAGE_BYTES)


def _read(disk: Readable, name: str, offset: int, size: int) -> bytes:
    """What can be read; a page that cannot be read comes as zeros. Raises: OSError if that is no damage."""
    try:
        return disk.read(name, offset, size)
    except OSError as error:
        if not is_damage(error):
            raise
        end_of_page = offset - offset % PAGE_BYTES + PAGE_BYTES
        if offset + size <= end_of_page or isinstance(error, FileNotFoundError):
            return b""
    pieces = [_read(disk, name, offset, end_of_page - offset) or bytes(end_of_page - offset)]
    for start in range(end_of_page, offset + size, PAGE_BYTES):
        page_bytes = min(PAGE_BYTES, offset + size - start)
        pieces.append(_read(disk, name, start, page_bytes) or bytes(page_bytes))
    return b"".join(pieces)
