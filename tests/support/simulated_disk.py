"""A disk in memory that loses power, fails, and fills up, for everything that writes through a small interface.

How to use it:

    disk = SimulatedDisk(capacity_bytes=...)      it implements `agent.journal.Disk` by itself, as one flat directory
    disk.folder("journal/")                       the same for one directory of several on one disk
    disk.archive_folder("archives/")              an `agent.archive.store.Directory` on the same disk
    disk.before_each = hook                       before each operation that changes something; raise to crash there
    disk.after_write = hook(name, data)           the same after a write, by what was written
    disk.fault = lambda operation, name: EIO      an errno for an operation to fail with, or None: of "read", "create",
                                                  "write", "sync" and "sync_names"
    disk = disk.after_power_loss(chance)          one of the disks that may be found after losing power now
    disk = disk.after_kill()                      what a killed process leaves: its page cache, all still at stake

Programs that open files by themselves (token log, clock ceiling, group keys, file publisher, quarantine) are crashed on
real files by `tests/support/crashing_folder.py`, which has the same model of what survives.

The model. Of every sector written since the last sync of its file, any version written since may be the one that stays,
or none: that covers dropped, torn and reordered writes at once. A file's size that was not synced may be as before. Of
the changes of names since the last `sync_names` of their directory, any may have reached the medium without the others.

A `sync` that fails is reported once: what was written stays readable, counts as clean, and never becomes durable unless
it is written again, however often a later `sync` succeeds (this is what Linux does). `after_kill` may evict such pages,
and then the old content is read again. Names are different: a failed `sync_names` is tried again by the next one, since
a journalling file system that cannot write its metadata stops altogether.
"""

import errno
import os
import random
from collections.abc import Callable, Iterator

SECTOR_BYTES = 512

Fault = Callable[[str, str], int | None]  # operation and name → an errno, or None


class SimulatedFile:
    def __init__(self) -> None:
        self.content = bytearray()  # as a reader sees it now
        self.durable = bytearray()  # as of the last sync, less what a failed sync has dropped
        self.unsynced: list[tuple[int, bytes]] = []
        self.dropped: list[tuple[int, int]] = []  # offset and size of what a failed sync left in the page cache only

    def write(self, offset: int, data: bytes) -> None:
        self.unsynced.append((offset, data))
        _put(self.content, offset, data)

    def sync(self) -> None:
        self._fix_size()
        for offset, data in self.unsynced:
            _put(self.durable, offset, data)
        self.unsynced.clear()

    def fail_to_sync(self, chance: random.Random) -> None:
        """Any part of what was written may have reached the medium; the rest counts as clean from now on."""
        self._fix_size()
        for offset, sector in (piece for write in self.unsynced for piece in _sectors(*write)):
            if chance.random() < 0.3:
                _put(self.durable, offset, sector)
            else:
                self.dropped.append((offset, len(sector)))
        self.unsynced.clear()

    def evict(self, chance: random.Random) -> None:
        """The kernel may let go of pages that count as clean, and reads the medium again."""
        if chance.random() < 0.5:
            return
        for offset, size in self.dropped:
            is_dirty = any(start < offset + size and offset < start + len(data) for start, data in self.unsynced)
            if not is_dirty and chance.random() < 0.5:
                _put(self.content, offset, bytes(self.durable[offset : offset + size]))

    def copy(self) -> "SimulatedFile":
        twin = SimulatedFile()
        twin.content, twin.durable = bytearray(self.content), bytearray(self.durable)
        twin.unsynced, twin.dropped = [*self.unsynced], [*self.dropped]
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

    def _fix_size(self) -> None:
        self.durable.extend(bytes(max(0, len(self.content) - len(self.durable))))


def _put(content: bytearray, offset: int, data: bytes) -> None:
    content.extend(bytes(max(0, offset - len(content))))
    content[offset : offset + len(data)] = data


def _sectors(offset: int, data: bytes) -> Iterator[tuple[int, bytes]]:
    for start in range(0, len(data), SECTOR_BYTES):
        yield offset + start, data[start : start + SECTOR_BYTES]


Names = dict[str, SimulatedFile]
Change = tuple[str, Callable[[Names], object]]  # the folder, and what is done to its names


def _no_fault(_operation: str, _name: str) -> None:
    return None


class SimulatedDisk:
    """Implements `agent.journal.Disk`."""

    def __init__(self, *, capacity_bytes: int | None = None) -> None:
        self.files: Names = {}
        self.durable_names: Names = {}
        self.capacity_bytes = capacity_bytes
        self.before_each: Callable[[], None] = lambda: None
        self.after_write: Callable[[str, bytes], None] = lambda _name, _data: None
        self.fault: Fault = _no_fault
        self.chance = random.Random(0)  # decides what of a failed operation reached the medium
        self._changes: list[Change] = []  # of names, since they were last synced

    def folder(self, prefix: str) -> "SimulatedFolder":
        return SimulatedFolder(self, prefix)

    def archive_folder(self, prefix: str) -> "SimulatedArchiveFolder":
        return SimulatedArchiveFolder(self, prefix)

    def names(self) -> list[str]:
        return list(self.files)

    def size(self, name: str) -> int:
        return len(self._file(name).content)

    def read(self, name: str, offset: int, size: int) -> bytes:
        file = self._file(name)
        self._meet_fault("read", name)
        return bytes(file.content[offset : offset + size])

    def create(self, name: str, size: int) -> None:
        self.before_each()
        self._meet_fault("create", name)
        known = self.files.get(name)
        self._take_room(name, size - (0 if known is None else len(known.content)))
        if known is None:
            known = self._add_name(name, SimulatedFile())
        known.content.extend(bytes(max(0, size - len(known.content))))

    def write(self, name: str, offset: int, data: bytes) -> None:
        self.before_each()
        file = self._file(name)
        if (problem := self.fault("write", name)) is not None:
            file.write(offset, data[: self.chance.randrange(0, len(data) + 1, SECTOR_BYTES)])
            raise OSError(problem, os.strerror(problem), name)
        self._take_room(name, offset + len(data) - len(file.content))
        file.write(offset, data)
        self.after_write(name, data)

    def sync(self, name: str) -> None:
        self.before_each()
        file = self._file(name)
        if (problem := self.fault("sync", name)) is not None:
            file.fail_to_sync(self.chance)
            raise OSError(problem, os.strerror(problem), name)
        file.sync()

    def sync_names(self, prefix: str = "") -> None:
        self.before_each()
        self._meet_fault("sync_names", prefix)
        for name in [name for name in {**self.durable_names, **self.files} if name.startswith(prefix)]:
            if name in self.files:
                self.durable_names[name] = self.files[name]
            else:
                del self.durable_names[name]
        self._changes = [change for change in self._changes if not change[0].startswith(prefix)]

    def remove(self, name: str) -> None:
        self.before_each()
        self._change_names(name, lambda names: names.pop(name, None))

    def close(self) -> None:
        pass

    def free_bytes(self) -> int:
        return (1 << 40) if self.capacity_bytes is None else max(0, self.capacity_bytes - self.used_bytes)

    def total_bytes(self) -> int:
        return (1 << 40) if self.capacity_bytes is None else self.capacity_bytes

    # For folders

    def begin_file(self, name: str) -> SimulatedFile:
        """A new and empty one, in place of any other of that name."""
        self.before_each()
        self._meet_fault("create", name)
        return self._add_name(name, SimulatedFile())

    def rename(self, old: str, new: str) -> None:
        def move(names: Names) -> None:
            if old in names:
                names[new] = names.pop(old)

        self.before_each()
        self._change_names(old, move)

    @property
    def used_bytes(self) -> int:
        return sum(len(file.content) for file in self.files.values())

    # What is found afterwards

    def after_power_loss(self, chance: random.Random) -> "SimulatedDisk":
        names = dict(self.durable_names)
        for _, change in self._changes:
            if chance.random() < 0.5:
                change(names)
        disk = self._like_this(chance)
        disk.files = {name: file.after_power_loss(chance) for name, file in names.items()}
        disk.durable_names = dict(disk.files)
        return disk

    def after_kill(self, chance: random.Random | None = None) -> "SimulatedDisk":
        """With `chance`, pages that a failed sync has left may be evicted meanwhile."""
        disk = self._like_this(chance)
        copies: dict[int, SimulatedFile] = {}

        def copy(file: SimulatedFile) -> SimulatedFile:
            return copies.setdefault(id(file), file.copy())

        disk.files = {name: copy(file) for name, file in self.files.items()}
        disk.durable_names = {name: copy(file) for name, file in self.durable_names.items()}
        for folder, change in self._changes:
            disk._changes.append((folder, _on_copies(change, copy)))
        for file in copies.values() if chance is not None else ():
            file.evict(chance or random.Random(0))
        return disk

    def _like_this(self, chance: random.Random | None) -> "SimulatedDisk":
        disk = SimulatedDisk(capacity_bytes=self.capacity_bytes)
        disk.chance = chance or self.chance
        return disk

    def _meet_fault(self, operation: str, name: str) -> None:
        if (problem := self.fault(operation, name)) is not None:
            raise OSError(problem, os.strerror(problem), name)

    def _take_room(self, name: str, more_bytes: int) -> None:
        if more_bytes > self.free_bytes():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)

    def _add_name(self, name: str, file: SimulatedFile) -> SimulatedFile:
        self._change_names(name, lambda names: names.update({name: file}))
        return file

    def _change_names(self, name: str, change: Callable[[Names], object]) -> None:
        change(self.files)
        self._changes.append((name[: name.rfind("/") + 1], change))

    def _file(self, name: str) -> SimulatedFile:
        try:
            return self.files[name]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "No such file", name) from None


def _on_copies(
    change: Callable[[Names], object], copy: Callable[[SimulatedFile], SimulatedFile]
) -> Callable[[Names], object]:
    """The same change of names, of the files as they were copied."""

    def changed(names: Names) -> None:
        known = {id(file) for file in names.values()}
        change(names)
        for name, file in names.items():
            if id(file) not in known:
                names[name] = copy(file)

    return changed


class SimulatedFolder:
    """One directory of a disk, as `agent.journal.Disk`."""

    def __init__(self, disk: SimulatedDisk, prefix: str) -> None:
        self.disk = disk
        self._prefix = prefix

    def names(self) -> list[str]:
        return sorted(name.removeprefix(self._prefix) for name in self.disk.files if name.startswith(self._prefix))

    def size(self, name: str) -> int:
        return self.disk.size(self._prefix + name)

    def read(self, name: str, offset: int, size: int) -> bytes:
        return self.disk.read(self._prefix + name, offset, size)

    def create(self, name: str, size: int) -> None:
        self.disk.create(self._prefix + name, size)

    def write(self, name: str, offset: int, data: bytes) -> None:
        self.disk.write(self._prefix + name, offset, data)

    def sync(self, name: str) -> None:
        self.disk.sync(self._prefix + name)

    def sync_names(self) -> None:
        self.disk.sync_names(self._prefix)

    def remove(self, name: str) -> None:
        self.disk.remove(self._prefix + name)

    def free_bytes(self) -> int:
        return self.disk.free_bytes()

    def total_bytes(self) -> int:
        return self.disk.total_bytes()

    def close(self) -> None:
        pass


class SimulatedArchiveFolder:
    """One directory of a disk, as `agent.archive.store.Directory`."""

    def __init__(self, disk: SimulatedDisk, prefix: str) -> None:
        self.disk = disk
        self._prefix = prefix

    def names(self) -> list[str]:
        return sorted(name.removeprefix(self._prefix) for name in self.disk.files if name.startswith(self._prefix))

    def size(self, name: str) -> int:
        return self.disk.size(self._prefix + name)

    def read(self, name: str, offset: int, count: int) -> bytes:
        return self.disk.read(self._prefix + name, offset, count)

    def create(self, name: str) -> "_GrowingFile":
        return _GrowingFile(self.disk, self._prefix + name)

    def reserve(self, name: str, size: int) -> None:
        self.disk.create(self._prefix + name, size)

    def rename(self, old: str, new: str) -> None:
        self.disk.rename(self._prefix + old, self._prefix + new)

    def remove(self, name: str) -> None:
        self.disk.remove(self._prefix + name)

    def sync(self) -> None:
        self.disk.sync_names(self._prefix)

    def free_bytes(self) -> int:
        return self.disk.free_bytes()

    def close(self) -> None:
        pass


class _GrowingFile:
    """Implements `agent.archive.store.NewFile`."""

    def __init__(self, disk: SimulatedDisk, name: str) -> None:
        self._disk = disk
        self._name = name
        self._file = disk.begin_file(name)

    def write(self, data: bytes) -> None:
        if not data:
            return
        half = len(data) // 2
        self._disk.write(self._name, len(self._file.content), data[:half])  # a crash may leave a part of it
        self._disk.write(self._name, len(self._file.content), data[half:])

    def sync(self) -> None:
        self._disk.sync(self._name)

    def close(self) -> None:
        pass
