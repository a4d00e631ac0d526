"""The interface of the journal to its disk, and the implementation as a directory. Tests use one that loses power.

Nothing is durable before it is synced: the bytes of a file by `sync`, its existence by `sync_names`.
"""

import errno
import os
from collections import OrderedDict
from pathlib import Path
from typing import Protocol

from agent.journal.lock import DirectoryLock
from runtime.durable_files import change_owner, make_directory, sync_directory

MAX_OPEN_FILES = 16
LOCK_NAME = "lock"
_OF_THE_PROCESS = (errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def is_damage(error: OSError) -> bool:
    """Whether the medium lost what was written, rather than that this process may not read it, or not now.

    The first costs the records there. The second must cost none.
    """
    return error.errno not in _OF_THE_PROCESS


class Readable(Protocol):
    def read(self, name: str, offset: int, size: int) -> bytes:
        """Up to `size` bytes; fewer at the end of the file. Raises: OSError."""
        ...


class Disk(Readable, Protocol):
    """One flat directory of files. Every method may raise `OSError`."""

    def names(self) -> list[str]: ...
    def size(self, name: str) -> int: ...
    def create(self, name: str, size: int) -> None:
        """Create or lengthen a file to `size` bytes with all its space on the medium allocated, or change nothing."""
        ...

    def write(self, name: str, offset: int, data: bytes) -> None: ...
    def sync(self, name: str) -> None:
        """Return when every byte written to the file so far, and its size, is on the medium."""
        ...

    def sync_names(self) -> None:
        """Return when every creation and removal so far is on the medium."""
        ...

    def remove(self, name: str) -> None: ...
    def free_bytes(self) -> int:
        """The free bytes of the medium for this process."""
        ...

    def close(self) -> None: ...


class DirectoryDisk:
    """A directory of the file system. A writer holds the directory's lock; a reader needs none."""

    def __init__(self, directory: Path, *, read_only: bool = False) -> None:
        """Raises: StorageError if another process writes to this directory."""
        self._directory = directory
        self._mode = os.O_RDONLY if read_only else os.O_RDWR
        self._open: OrderedDict[str, int] = OrderedDict()
        self._lock: DirectoryLock | None = None
        if not read_only:
            make_directory(directory, mode=0o700)
            problem = "another process ({holder}) writes to this journal; stop the agent first"
            self._lock = DirectoryLock(directory / LOCK_NAME, mode=0o600, problem=problem)

    def names(self) -> list[str]:
        return [path.name for path in self._directory.iterdir() if path.name != LOCK_NAME]

    def size(self, name: str) -> int:
        return (self._directory / name).stat().st_size

    def read(self, name: str, offset: int, size: int) -> bytes:
        return os.pread(self._descriptor(name), size, offset)

    def create(self, name: str, size: int) -> None:
        path = self._directory / name
        existed = path.exists()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not existed:
                change_owner(descriptor, of=self._directory)
            os.posix_fallocate(descriptor, 0, size)
        except OSError:
            if not existed:
                path.unlink()
            raise
        finally:
            os.close(descriptor)

    def write(self, name: str, offset: int, data: bytes) -> None:
        descriptor = self._descriptor(name)
        view = memoryview(data)
        while view:
            written = os.pwrite(descriptor, view, offset)
            view, offset = view[written:], offset + written

    def sync(self, name: str) -> None:
        os.fdatasync(self._descriptor(name))

    def sync_names(self) -> None:
        sync_directory(self._directory)

    def remove(self, name: str) -> None:
        self._forget(name)
        (self._directory / name).unlink(missing_ok=True)

    def free_bytes(self) -> int:
        disk = os.statvfs(self._directory)
        return disk.f_bavail * disk.f_frsize

    def close(self) -> None:
        for name in list(self._open):
            self._forget(name)
        if self._lock is not None:
            self._lock.close()

    def _descriptor(self, name: str) -> int:
        descriptor = self._open.get(name)
        if descriptor is None:
            descriptor = self._open[name] = os.open(self._directory / name, self._mode | os.O_CLOEXEC)
            if len(self._open) > MAX_OPEN_FILES:
                self._forget(next(iter(self._open)))
        self._open.move_to_end(name)
        return descriptor

    def _forget(self, name: str) -> None:
        descriptor = self._open.pop(name, None)
        if descriptor is not None:
            os.close(descriptor)
