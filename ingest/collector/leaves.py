"""What the collector knows of each number of a log: `leaves-<file>`, 68 bytes per number, at a place of its own.

| bytes | what |
|---|---|
| 32 | SHA-256 of the archive with this number |
| 32 | root of the log before it, as the archive states it; zeros if it never arrived because another one replaces it |
| 4 | CRC-32 of these, big-endian |

A file has 16,384 numbers, so that a high number needs no more space than a low one. What is written counts only once
the state of the log names the number; until then it may be torn, and is written again. After that it never changes.
"""

import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

from protocol.errors import Corrupt
from runtime.durable_files import PRIVATE_FILE

NUMBERS_PER_FILE: Final = 16_384
_LEAF: Final = struct.Struct(">32s32s")
_CHECKSUM: Final = struct.Struct(">I")
LEAF_BYTES: Final = _LEAF.size + _CHECKSUM.size
_NO_ROOT: Final = bytes(32)


class Leaf(NamedTuple):
    sha256: bytes
    root: bytes  # of the log before this archive; empty if that is not known

    def to_bytes(self) -> bytes:
        leaf = _LEAF.pack(self.sha256, self.root or _NO_ROOT)
        return leaf + _CHECKSUM.pack(zlib.crc32(leaf))

    @classmethod
    def from_bytes(cls, data: bytes) -> "Leaf":
        """Raises: Corrupt."""
        if len(data) != LEAF_BYTES or _CHECKSUM.unpack(data[_LEAF.size :])[0] != zlib.crc32(data[: _LEAF.size]):
            raise Corrupt("a leaf is damaged or missing")
        sha256, root = _LEAF.unpack_from(data)
        return cls(sha256, b"" if root == _NO_ROOT else root)


class LeafFiles:
    """The leaves of one log, in its folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, number: int) -> Leaf:
        """Raises: Corrupt, OSError."""
        return next(self.read_range(number, number + 1))

    def read_range(self, first: int, after: int) -> Iterator[Leaf]:
        """The leaves from `first` up to, but without, `after`. Raises: Corrupt, OSError."""
        for file, numbers in _by_file(range(first, after)):
            data = self._read_file(file, numbers[0] % NUMBERS_PER_FILE, len(numbers))
            for index, number in enumerate(numbers):
                try:
                    yield Leaf.from_bytes(data[index * LEAF_BYTES : (index + 1) * LEAF_BYTES])
                except Corrupt as error:
                    raise Corrupt(f"{self._path(file)}: number {number}: {error.problem}; restore your copy") from error

    def write(self, leaves: Mapping[int, Leaf]) -> None:
        """The content is durable when this returns. The name of a new file is durable when the state of the log is,
        which is written next, in the same folder. Raises: OSError."""
        for file, numbers in _by_file(sorted(leaves)):
            descriptor = os.open(self._path(file), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
            try:
                for number in numbers:
                    _write_at(descriptor, leaves[number].to_bytes(), number % NUMBERS_PER_FILE * LEAF_BYTES)
                os.fdatasync(descriptor)
            finally:
                os.close(descriptor)

    def _read_file(self, file: int, first: int, count: int) -> bytes:
        try:
            descriptor = os.open(self._path(file), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return b""
        try:
            return os.pread(descriptor, count * LEAF_BYTES, first * LEAF_BYTES)
        finally:
            os.close(descriptor)

    def _path(self, file: int) -> Path:
        return self._folder / f"leaves-{file:06d}"


def _by_file(numbers: Iterable[int]) -> Iterator[tuple[int, list[int]]]:
    for file, group in groupby(numbers, key=lambda number: number // NUMBERS_PER_FILE):
        yield file, list(group)


def _write_at(descriptor: int, data: bytes, offset: int) -> None:
    rest = memoryview(data)
    while rest:
        written = os.pwrite(descriptor, rest, offset)
        rest, offset = rest[written:], offset + written
