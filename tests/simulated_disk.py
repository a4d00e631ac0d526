"""A disk in memory that loses power: what was not synced is kept, dropped, torn or reordered, sector by sector.

Of every sector written since the last sync of its file, any version written since may be the one that stays, or none:
that covers dropped, torn and reordered writes at once. A file's size and a directory entry that were not synced may be
as before. `SimulatedDisk.after_power_loss` gives one of the disks that may be found afterwards; `after_kill` the one
that a killed process leaves, with all that was not synced still at stake.
"""

import errno
import random
from collections.abc import Callable, Iterator

SECTOR_BYTES = 512


class SimulatedFile:
    def __init__(self) -> None:
        self.content = bytearray()  # as a reader sees it now
        self.durable = bytearray()  # as of the last sync
        self.unsynced: list[tuple[int, bytes]] = []

    def write(self, offset: int, data: bytes) -> None:
        self.unsynced.append((offset, data))
        _put(self.content, offset, data)

    def sync(self) -> None:
        for offset, data in self.unsynced:
            _put(self.durable, offset, data)
        self.durable.extend(self.content[len(self.durable) :])
        self.unsynced.clear()

    def copy(self) -> "SimulatedFile":
        twin = SimulatedFile()
        twin.content, twin.durable, twin.unsynced = bytearray(self.content), bytearray(self.durable), [*self.unsynced]
        return twin

    def after_power_loss(self, chance: random.Random) -> "SimulatedFile":
        survivor = SimulatedFile()
        kept = bytearray(self.durable)
        if len(self.content) > len(kept) and chance.random() < 0.5:
            kept.extend(bytes(chance.randint(0, len(self.content) - len(kept))))
        keep_probability = chance.choice((0.1, 0.5, 0.9))
        writes = chance.sample(self.unsynced, len(self.unsynced))  # the device may write them in any order
        for offset, sector in (piece for write in writes for piece in _sectors(*write)):
            if chance.random() < keep_probability and offset + len(sector) <= len(kept):
                _put(kept, offset, sector)
        survivor.content, survivor.durable = kept, bytearray(kept)
        return survivor


def _put(content: bytearray, offset: int, data: bytes) -> None:
    content.extend(bytes(max(0, offset - len(content))))
    content[offset : offset + len(data)] = data


def _sectors(offset: int, data: bytes) -> Iterator[tuple[int, bytes]]:
    for start in range(0, len(data), SECTOR_BYTES):
        yield offset + start, data[start : start + SECTOR_BYTES]


class SimulatedDisk:
    """Implements `agent.journal.Disk`. `before_each` is called before every operation that changes something."""

    def __init__(self, *, capacity_bytes: int | None = None) -> None:
        self.files: dict[str, SimulatedFile] = {}
        self.durable_names: dict[str, SimulatedFile] = {}
        self.capacity_bytes = capacity_bytes
        self.before_each: Callable[[], None] = lambda: None

    def names(self) -> list[str]:
        return list(self.files)

    def size(self, name: str) -> int:
        return len(self._file(name).content)

    def read(self, name: str, offset: int, size: int) -> bytes:
        return bytes(self._file(name).content[offset : offset + size])

    def create(self, name: str, size: int) -> None:
        self.before_each()
        known = self.files.get(name)
        missing = size - (0 if known is None else len(known.content))
        if self.capacity_bytes is not None and self.used_bytes + missing > self.capacity_bytes:
            raise OSError(errno.ENOSPC, "No space left on device", name)
        file = self.files.setdefault(name, SimulatedFile())
        file.content.extend(bytes(max(0, missing)))

    def write(self, name: str, offset: int, data: bytes) -> None:
        self.before_each()
        self._file(name).write(offset, data)

    def sync(self, name: str) -> None:
        self.before_each()
        self._file(name).sync()

    def sync_names(self) -> None:
        self.before_each()
        self.durable_names = dict(self.files)

    def remove(self, name: str) -> None:
        self.before_each()
        self.files.pop(name, None)

    def close(self) -> None:
        pass

    @property
    def used_bytes(self) -> int:
        return sum(len(file.content) for file in self.files.values())

    def after_power_loss(self, chance: random.Random) -> "SimulatedDisk":
        disk = SimulatedDisk(capacity_bytes=self.capacity_bytes)
        for name in sorted({*self.files, *self.durable_names}):
            now, before = self.files.get(name), self.durable_names.get(name)
            file = now if now is before else chance.choice((now, before))
            if file is not None:
                disk.files[name] = file.after_power_loss(chance)
        disk.durable_names = dict(disk.files)
        return disk

    def after_kill(self) -> "SimulatedDisk":
        disk = SimulatedDisk(capacity_bytes=self.capacity_bytes)
        copies = {id(file): file.copy() for file in (*self.files.values(), *self.durable_names.values())}
        disk.files = {name: copies[id(file)] for name, file in self.files.items()}
        disk.durable_names = {name: copies[id(file)] for name, file in self.durable_names.items()}
        return disk

    def _file(self, name: str) -> SimulatedFile:
        try:
            return self.files[name]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "No such file", name) from None
