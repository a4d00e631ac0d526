"""The segment files: made on demand, used again and again, never more than the cap allows.

A file that was written once is overwritten in place afterwards: that costs the card no file-system metadata, and a full
disk cannot refuse it. A file given back rests until the state that no longer names it is on the medium; then it is
spare, or deleted if there are spares enough.
"""

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
    def __init__(
        self, disk: Disk, *, segment_bytes: int, max_segments: int, spare_segments: int, keep_reserve: bool
    ) -> None:
        self._disk = disk
        self._segment_bytes = segment_bytes
        self._max_bytes = max_segments * segment_bytes
        self._spare_segments = spare_segments
        self._sizes = _segment_sizes(disk)
        self._spare = sorted(self._sizes)
        self._resting: list[int] = []
        self._keep_reserve = keep_reserve
        self._reserve: int | None = None

    @property
    def numbers(self) -> list[int]:
        return list(self._sizes)

    @property
    def bytes_on_disk(self) -> int:
        return sum(self._sizes.values())

    @property
    def room_bytes(self) -> int:
        """What could still be written without losing anything."""
        idle = sum(self._sizes[number] for number in (*self._spare, *self._resting))
        return max(0, self._max_bytes - self.bytes_on_disk + idle)

    @property
    def is_over_cap(self) -> bool:
        return self.bytes_on_disk > self._max_bytes

    def pages(self, number: int) -> int:
        return self._sizes.get(number, 0) // PAGE_BYTES

    def claim(self, number: int) -> None:
        """Note on opening that a live segment is in this file. A file that is not there counts as empty."""
        self._sizes.setdefault(number, 0)
        if number in self._spare:
            self._spare.remove(number)

    def take(self) -> int | None:
        """A file to write to once the state names it, or None if there is no room for one. Raises: OSError."""
        if self._spare:
            return self._spare.pop()
        return self._resting.pop(0) if self._resting else self._make()

    def take_reserve(self) -> int | None:
        """The file kept back for thinning, which may be written at once; None if there was no room for one."""
        number, self._reserve = self._reserve, None
        return number

    def put_back_reserve(self, number: int) -> None:
        self._reserve = number

    def give_back(self, number: int) -> None:
        self._resting.append(number)

    def settle(self) -> None:
        """The state is saved without the files that were given back: they are spare now. Raises: OSError."""
        self._spare.extend(self._resting)
        self._resting.clear()
        for number in [spare for spare in self._spare if self._sizes[spare] != self._segment_bytes]:
            self._remove_spare(number)  # made under another setting, or not to the end before a crash
        if self._keep_reserve and self._reserve is None:
            self._reserve = self._spare.pop() if self._spare else self._make()
        while self._spare and (len(self._spare) > self._spare_segments or self.is_over_cap):
            self._remove_spare(self._spare[0])

    def _make(self) -> int | None:
        if self.bytes_on_disk + self._segment_bytes > self._max_bytes:
            return None
        number = next(candidate for candidate in range(len(self._sizes) + 1) if candidate not in self._sizes)
        name = file_name(number)
        try:
            self._disk.create(name, self._segment_bytes)
        except OSError as error:
            if error.errno in _NO_ROOM:
                return None
            raise
        self._disk.sync(name)
        self._disk.sync_names()
        self._sizes[number] = self._segment_bytes
        return number

    def _remove_spare(self, number: int) -> None:
        self._spare.remove(number)
        self._disk.remove(file_name(number))
        del self._sizes[number]


def _segment_sizes(disk: Disk) -> dict[int, int]:
    numbers = {name: file_number(name) for name in disk.names()}
    return {number: disk.size(name) for name, number in numbers.items() if number is not None}
