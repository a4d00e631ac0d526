"""The few things the archiver does to its directory, so that tests can put a failing disk in its place."""

import fcntl
import os
from pathlib import Path
from typing import Protocol

from agent.atomic_files import sync_directory
from agent.errors import ConfigError

ARCHIVE_MODE = 0o640  # whoever ships archives may share the group; what is in them may be private


class NewFile(Protocol):
    """A file being written from its start to its end."""

    def write(self, data: bytes) -> None: ...
    def sync(self) -> None:
        """Returns when everything written is on the medium."""

    def close(self) -> None: ...


class Directory(Protocol):
    """One flat directory. A change of names is on the medium only after `sync`."""

    def names(self) -> list[str]: ...
    def size(self, name: str) -> int: ...
    def read(self, name: str, offset: int, count: int) -> bytes: ...
    def create(self, name: str) -> NewFile: ...
    def rename(self, old: str, new: str) -> None: ...
    def remove(self, name: str) -> None: ...
    def sync(self) -> None: ...
    def free_bytes(self) -> int:
        """What is left on its disk for whoever may write there."""

    def close(self) -> None: ...


class RealDirectory:
    """A directory of the file system, held by one process at a time."""

    def __init__(self, path: Path) -> None:
        """Raises: ConfigError if another process has it open."""
        path.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._path = path
        self._lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise ConfigError(f"{path}: another process is archiving here") from None

    def names(self) -> list[str]:
        return sorted(each.name for each in self._path.iterdir())

    def size(self, name: str) -> int:
        return (self._path / name).stat().st_size

    def read(self, name: str, offset: int, count: int) -> bytes:
        with (self._path / name).open("rb") as file:
            return os.pread(file.fileno(), count, offset)

    def create(self, name: str) -> NewFile:
        return _RealFile(self._path / name)

    def rename(self, old: str, new: str) -> None:
        (self._path / old).rename(self._path / new)

    def remove(self, name: str) -> None:
        (self._path / name).unlink(missing_ok=True)

    def sync(self) -> None:
        sync_directory(self._path)

    def free_bytes(self) -> int:
        disk = os.statvfs(self._path)
        return disk.f_bavail * disk.f_frsize

    def close(self) -> None:
        os.close(self._lock)


class _RealFile:
    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, ARCHIVE_MODE)
        self._file = os.fdopen(descriptor, "wb")

    def write(self, data: bytes) -> None:
        self._file.write(data)

    def sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()
