"""The clock's ceiling: a durable number that no issued timestamp exceeds, since it was last lowered.

| bytes | what |
|---|---|
| 0–35 | a slot: `HGCEIL`, version (2), serial (8), ceiling in ms (8), eight reserved zero bytes, CRC-32 (4) |
| 4096–4131 | another slot |

The file has its full size from the start, and the two slots are written in turns, each with one small write and one
fdatasync: no file is created and no block allocated, so a full disk does not matter. A torn write
leaves the other slot.
"""

import os
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

from runtime.durable_files import create_file, sync_directory

_SLOT = struct.Struct(">6sHQQ8x")
_CRC = struct.Struct(">I")
MAGIC = b"HGCEIL"
VERSION = 1
SLOT_BYTES = _SLOT.size + _CRC.size
SLOT_OFFSETS = (0, 4096)
FILE_BYTES = 8192
NOTHING = -1  # below every timestamp


class _Slot(NamedTuple):
    serial: int
    ceiling_ms: int


class CeilingFile:
    """`ceiling_ms` is the durable value; after a crash within `write`, the old or the new one."""

    def __init__(self, path: Path) -> None:
        """Raises: OSError."""
        if not path.exists():
            create_file(path, bytes(FILE_BYTES))
        else:
            sync_directory(path.parent)  # the process that created it may have been killed before its sync
        newest = _newest(path.read_bytes()[:FILE_BYTES])
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._serial = newest.serial
        self.ceiling_ms = newest.ceiling_ms
        self.is_doubtful = newest.ceiling_ms != NOTHING  # the process that wrote it may have failed to sync it

    def write(self, ceiling_ms: int) -> None:
        """Returns when it is on the medium. Raises: OSError."""
        serial = self._serial + 1
        os.pwrite(self._descriptor, encode_slot(serial, ceiling_ms), SLOT_OFFSETS[serial % 2])
        os.fdatasync(self._descriptor)
        self.is_doubtful = False
        self._serial, self.ceiling_ms = serial, ceiling_ms  # after a failure, the same slot is tried again

    def close(self) -> None:
        os.close(self._descriptor)


def read_ceiling(path: Path) -> int | None:
    """Read the ceiling from a file; None if there is no file. Raises: OSError."""
    try:
        with path.open("rb") as file:
            ceiling_ms = _newest(file.read(FILE_BYTES)).ceiling_ms
    except FileNotFoundError:
        return None
    return None if ceiling_ms == NOTHING else ceiling_ms


def encode_ceiling_file(ceiling_ms: int) -> bytes:
    """The content of a ceiling file."""
    return encode_slot(2, ceiling_ms).ljust(FILE_BYTES, b"\0")


def _newest(data: bytes) -> _Slot:
    slots = [_decode(data[offset : offset + SLOT_BYTES]) for offset in SLOT_OFFSETS]
    return max((slot for slot in slots if slot is not None), default=_Slot(0, NOTHING))


def encode_slot(serial: int, ceiling_ms: int) -> bytes:
    content = _SLOT.pack(MAGIC, VERSION, serial, ceiling_ms)
    return content + _CRC.pack(zlib.crc32(content))


def _decode(data: bytes) -> _Slot | None:
    """None for a slot that is empty, torn or damaged: then the other one counts."""
    if len(data) < SLOT_BYTES or _CRC.unpack(data[_SLOT.size :])[0] != zlib.crc32(data[: _SLOT.size]):
        return None
    magic, version, serial, ceiling_ms = _SLOT.unpack(data[: _SLOT.size])
    return _Slot(serial, ceiling_ms) if (magic, version) == (MAGIC, VERSION) else None
