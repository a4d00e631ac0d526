"""A real folder whose disk loses power or fails, for programs that open files by themselves.

    with CrashingFolder(tmp_path / "data") as folder:
        log = TokenLog(folder.path); ...               any code that writes below it, in this process
        folder.before_each = hook                      before each sync, write and change of names; raise to crash
        folder.fault = lambda operation, path: EIO     for "sync", "write" or "names"; None lets it pass
        found = folder.after_power_loss(tmp_path / "found", chance)    a folder as it may be found, and so on from there
    a killed process: leave the objects and go on in the same folder, whose page cache is all still at stake

It sees what goes through `os`: `fsync`, `fdatasync`, `pwrite`, `write`, and the functions that change names (`pathlib`
calls these). What buffered Python files write is seen by its effect. The journal (`DirectoryDisk`) and the archives
(`RealDirectory`) can live in the same folder, so that everything on a device is crashed together.

The model is that of `tests/support/simulated_disk.py`: of each sector not synced the old or the new content is found;
a failed sync is reported once, and what it was to write never becomes durable unless it is written again. Names that
were not synced in their directory are as they were at some moment since it was; names of different directories are
independent.
"""

import fcntl
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

SECTOR_BYTES = 512
_NAME_CALLS = ("rename", "replace", "link", "unlink", "remove", "mkdir", "rmdir")
_SYNC_CALLS = ("fsync", "fdatasync")
_WRITE_CALLS = ("pwrite", "write")

Listing = dict[str, int]  # name → inode


class _Inode:
    """What is known of one file, which stays open so that its number is not given to another."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.durable = b""
        self.clean = b""  # as the last sync found it, whether it failed or not
        self.rewritten: set[int] = set()  # sectors written since, perhaps with what they held

    def content(self) -> bytes:
        return os.pread(self._descriptor, os.fstat(self._descriptor).st_size, 0)

    def note_write(self, offset: int, size: int) -> None:
        self.rewritten.update(range(offset // SECTOR_BYTES, (offset + size - 1) // SECTOR_BYTES + 1))

    def sync(self) -> None:
        content = self.content()
        self.durable = self._mixed(content, len(content), lambda: True)
        self.clean, self.rewritten = content, set()

    def fail_to_sync(self, chance: random.Random) -> None:
        content = self.content()
        self.durable = self._mixed(content, len(content), lambda: chance.random() < 0.3)
        self.clean, self.rewritten = content, set()

    def after_power_loss(self, chance: random.Random) -> bytes:
        content = self.content()
        size = chance.choice((len(content), len(self.durable)))
        probability = chance.choice((0.1, 0.5, 0.9))
        return self._mixed(content, size, lambda: chance.random() < probability)

    def _mixed(self, content: bytes, size: int, is_kept: Callable[[], bool]) -> bytes:
        """`durable` with those sectors of `content` that are dirty and kept."""
        mixed = bytearray(self.durable[:size].ljust(size, b"\0"))
        for number in range(-(-size // SECTOR_BYTES)):
            part = slice(number * SECTOR_BYTES, (number + 1) * SECTOR_BYTES)
            is_dirty = number in self.rewritten or content[part] != self.clean[part]
            if is_dirty and is_kept():
                mixed[part] = content[part].ljust(len(mixed[part]), b"\0")
        return bytes(mixed)

    def close(self) -> None:
        os.close(self._descriptor)


class CrashingFolder:
    def __init__(self, path: Path, chance: random.Random | None = None) -> None:
        """What is in the folder already is durable."""
        path.mkdir(parents=True, exist_ok=True)
        self.path = path.resolve()
        self.before_each: Callable[[], None] = lambda: None
        self.fault: Callable[[str, str], int | None] = lambda _operation, _path: None
        self._chance = chance or random.Random(0)
        self._real: dict[str, Any] = {}
        self._inodes: dict[int, _Inode] = {}
        self._listings: dict[Path, list[Listing]] = {}  # of each directory, since it was synced
        self._is_inside = False
        self._note_names()
        for directory, listings in self._listings.items():
            self._listings[directory] = [listings[-1]]
        for inode in self._inodes.values():
            inode.clean = inode.durable = inode.content()

    def __enter__(self) -> Self:
        for name in (*_SYNC_CALLS, *_WRITE_CALLS, *_NAME_CALLS):
            self._real[name] = getattr(os, name)
            setattr(os, name, self._watched(name))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name, function in self._real.items():
            setattr(os, name, function)
        for inode in self._inodes.values():
            inode.close()

    def after_power_loss(self, into: Path, chance: random.Random) -> Path:
        """Make `into` one of the folders that may be found after losing power now."""
        with self._aside():
            self._note_names()
            self._restore(self.path, into, chance)
        return into

    def _restore(self, directory: Path, into: Path, chance: random.Random) -> None:
        into.mkdir()
        for name, number in chance.choice(self._listings[directory]).items():
            if number in self._inodes:
                (into / name).write_bytes(self._inodes[number].after_power_loss(chance))
            elif directory / name in self._listings:
                self._restore(directory / name, into / name, chance)

    def _watched(self, name: str) -> Callable[..., Any]:
        real = self._real[name]

        def call(*arguments: Any, **keywords: Any) -> Any:
            if self._is_inside:
                return real(*arguments, **keywords)
            path = self._path_of(arguments[0])
            if path is None:
                return real(*arguments, **keywords)
            with self._aside():
                self._note_names()
            self.before_each()
            with self._aside():
                try:
                    return self._perform(name, path, real, arguments, keywords)
                finally:
                    self._note_names()

        return call

    def _perform(self, name: str, path: Path, real: Any, arguments: Any, keywords: Any) -> Any:
        operation = "sync" if name in _SYNC_CALLS else "write" if name in _WRITE_CALLS else "names"
        problem = self.fault(operation, str(path.relative_to(self.path)))
        inode = self._inodes.get(path.stat().st_ino) if path.exists() else None
        if problem is not None:
            if operation == "sync" and inode is not None:
                inode.fail_to_sync(self._chance)
            raise OSError(problem, os.strerror(problem), str(path))
        if operation == "write" and inode is not None:
            offset = arguments[2] if name == "pwrite" else _offset_of(arguments[0])
            inode.note_write(offset, max(1, len(arguments[1])))
        result = real(*arguments, **keywords)
        if operation == "sync" and path.is_dir():
            self._listings[path] = [self._listings[path][-1]]
        elif operation == "sync" and inode is not None:
            inode.sync()
        return result

    def _path_of(self, what: Any) -> Path | None:
        """Of a descriptor or a path, if it lies in this folder."""
        if isinstance(what, int):
            try:
                what = Path(f"/proc/self/fd/{what}").readlink()
            except OSError:
                return None
        path = Path(os.path.abspath(os.fsdecode(what)))  # noqa: PTH100 - a link is not to be followed
        return path if path == self.path or self.path in path.parents else None

    def _note_names(self) -> None:
        """Take the names down as they are now, where they have changed."""
        for parent, directories, files in os.walk(self.path):
            directory, listing = Path(parent), Listing()
            for name in (*directories, *files):
                number = (directory / name).lstat().st_ino
                listing[name] = number
                if name in files and number not in self._inodes and (directory / name).is_file():
                    self._inodes[number] = _Inode(directory / name)
            known = self._listings.setdefault(directory, [{}])
            if known[-1] != listing:
                known.append(listing)

    @contextmanager
    def _aside(self) -> Iterator[None]:
        """What is done here is not watched."""
        before, self._is_inside = self._is_inside, True
        try:
            yield
        finally:
            self._is_inside = before


def _offset_of(descriptor: int) -> int:
    """Where the next `write` goes."""
    is_appending = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND
    return os.fstat(descriptor).st_size if is_appending else os.lseek(descriptor, 0, os.SEEK_CUR)
