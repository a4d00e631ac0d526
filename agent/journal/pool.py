"""The segment files: made on demand, used again and again, never more than the cap allows.

A file that was written once is overwritten in place afterwards: that costs the card no file-system metadata, and a full
disk cannot refuse it. A file given back may still be named by the state on the medium, so whoever takes a file saves
the state before writing to it; only the reserve for thinning may be written to at once.
"""

import contextlib
import errno

from agent.journal.disk import Disk
from agent.journal.layout import PAGE_BYTES

SUFFIX = ".segment"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


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
        self, disk: Disk, *, segment_bytes: int, max_segments: int, spare_segments: int, keep_reserve: bool
    ) -> None:
        self._disk = disk
        self._segment_pages = segment_bytes // PAGE_BYTES
        self._max_bytes = max_segments * segment_bytes
        self._spare_segments = spare_segments
        self.pages = segment_pages(disk)  # how many each file has
        self._spare = sorted(self.pages)
        self._keep_reserve = keep_reserve
        self._reserve: int | None = None

    @property
    def bytes_on_disk(self) -> int:
        return sum(self.pages.values()) * PAGE_BYTES

    @property
    def room_bytes(self) -> int:
        """What could still be written without losing anything."""
        spare_pages = sum(self.pages[number] for number in self._spare)
        return max(0, self._max_bytes - self.bytes_on_disk + spare_pages * PAGE_BYTES)

    @property
    def is_over_cap(self) -> bool:
        return self.bytes_on_disk > self._max_bytes

    def claim(self, number: int) -> None:
        """Note on opening that a live segment is in this file. A file that is not there counts as empty."""
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
        """The file kept back for thinning, which may be written at once; None if there was no room for one."""
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
        if self.bytes_on_disk + segment_bytes > self._max_bytes:
            return None
        number = next(candidate for candidate in range(len(self.pages) + 1) if candidate not in self.pages)
        name = file_name(number)
        try:
            self._disk.create(name, segment_bytes)
        except OSError as error:
            if error.errno in _NO_ROOM:
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
            with contextlib.suppress(FileNotFoundError):  # whoever writes to the journal may let go of it meanwhile
                pages[number] = disk.size(name) // PAGE_BYTES
    return pages
