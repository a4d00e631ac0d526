"""The archive directory: whole archives under their final names, and one small state file.

Promises, each with a test that can fail:

1. A file under an archive's final name is whole after any crash: it is complete and synced before it gets the name.
2. No record is skipped, and none is in two archives unless one of them was damaged on the disk; the same holds for a
   loss while its archive waits for a receipt. The state file names the archive before the archive gets its name; after
   a crash in between, the next start completes it.
3. Files left by a crash begin with a dot and are removed on the next start.
4. An archive is deleted only for a valid receipt of exactly that file.

    .writing ─ sync ─► .<sha256>.ready ─ sync names ─► state names it ─ sync ─► <sha256>.hga ─ sync names

The state file also holds the end of the device log, which grows in the same write. If the file is lost or damaged, it
is rebuilt from the manifests of the archives that are there, with a new log. Archives that are encrypted are then
unknown, and their messages are archived a second time; the ingest removes duplicates by the messages' identity.
"""

import fcntl
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from agent.archive.state import MAX_KEPT_ARCHIVES, MAX_STATE_BYTES, ArchiveState, KeptArchive
from agent.archive.stated import STATED_NAME, Stated, read_stated
from agent.errors import ConfigError
from protocol.archive.random_access import open_archive
from protocol.archive.receipt import Receipt
from protocol.devicelog.checkpoint import Checkpoint
from protocol.devicelog.entry import LOG_ID_BYTES
from protocol.devicelog.log import LogHead
from protocol.errors import WireError
from runtime.durable_files import make_directory, sync_directory

STATE_NAME = "archives.state"
RESERVE_NAME = ".reserve"  # space for one archive on a disk that is full otherwise; see `agent/archive/archiver.py`
PLAIN_SUFFIX = ".hga"
ENCRYPTED_SUFFIX = ".hgs"
ARCHIVE_SUFFIXES = (PLAIN_SUFFIX, ENCRYPTED_SUFFIX)
SET_ASIDE_SUFFIX = ".forked"  # of an archive of a forked log that the journal no longer holds completely
ARCHIVE_MODE = 0o640  # a program that ships archives may share the group; their content may be private


def draw_log_id() -> bytes:
    return os.urandom(LOG_ID_BYTES)


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
    def reserve(self, name: str, size: int) -> None:
        """Make a file of that size with all its space on the medium allocated, or none. Raises: OSError."""

    def rename(self, old: str, new: str) -> None: ...
    def remove(self, name: str) -> None: ...
    def sync(self) -> None: ...
    def free_bytes(self) -> int:
        """The free bytes of its disk."""

    def close(self) -> None: ...


class RealDirectory:
    """A directory of the file system, held by one process at a time."""

    def __init__(self, path: Path) -> None:
        """Raises: ConfigError if another process has it open."""
        make_directory(path, mode=0o750)
        self._path = path
        self._lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.sync()  # renames of a killed process are relied on from now on
        except BlockingIOError:
            os.close(self._lock)
            raise ConfigError(
                f"{path}: another process is writing archives here; stop that agent, or set another archive.directory"
            ) from None
        except OSError:
            os.close(self._lock)
            raise

    def names(self) -> list[str]:
        return sorted(each.name for each in self._path.iterdir())

    def size(self, name: str) -> int:
        return (self._path / name).stat().st_size

    def read(self, name: str, offset: int, count: int) -> bytes:
        with (self._path / name).open("rb") as file:
            return os.pread(file.fileno(), count, offset)

    def create(self, name: str) -> NewFile:
        return _RealFile(self._path / name)

    def reserve(self, name: str, size: int) -> None:
        descriptor = os.open(self._path / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, ARCHIVE_MODE)
        try:
            os.posix_fallocate(descriptor, 0, size)
        except OSError:
            (self._path / name).unlink(missing_ok=True)  # a partial file would only use up space
            raise
        finally:
            os.close(descriptor)

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


class ArchiveStore:
    """Opens the directory, finishes or clears what a crash left, and knows how far the journal is archived."""

    def __init__(
        self,
        directory: Directory,
        journal_id: bytes,
        begins: Mapping[int, int] = MappingProxyType({}),
        new_log: Callable[[], bytes] = draw_log_id,
    ) -> None:
        """`begins`: where the journal begins, by lane, if nothing is known of archives; `new_log` draws a log's id.

        Raises: OSError.
        """
        self._directory = directory
        self._journal_id = journal_id
        self._begins = begins
        self._new_log = new_log
        self.missing: tuple[str, ...] = ()  # archives that should be here and are not; they are logged
        self._directory.sync()  # renames of a killed process may not be durable yet
        self._stated = read_stated(directory)
        self.recover()

    @property
    def state(self) -> ArchiveState:
        return self._state

    @property
    def is_full(self) -> bool:
        """Whether no further archive may wait for a receipt."""
        return len(self._state.kept) >= MAX_KEPT_ARCHIVES

    def stated_positions(self) -> dict[int, int]:
        """Lane → the next position, after all that an archive or a checkpoint has stated about this journal."""
        stated = {lane: self._state.log.end(lane) for lane in self._state.log.lanes}
        if self._stated is not None and self._stated.journal_id == self._journal_id:
            for each in self._stated.checkpoint.lanes:
                stated[each.lane] = max(each.committed, stated.get(each.lane, 0))
        return stated

    def state_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Make sure that no start goes back behind this checkpoint. Raises: OSError.

        One that states no more than the last one needs no write.
        """
        before = self._stated
        stated = Stated(self._journal_id, checkpoint)
        if before is None or before.journal_id != self._journal_id or before.checkpoint.lanes != checkpoint.lanes:
            self._replace_file(STATED_NAME, stated.to_bytes())
        self._stated = stated

    def publish(self, temporary: str, archive: KeptArchive) -> None:
        """Give a complete and synced temporary file its final name, and move the state forward with it."""
        ready = _ready_name(archive)
        self._directory.rename(temporary, ready)
        self._directory.sync()
        self._write_state(self._state.with_archive(archive))
        self._directory.rename(ready, archive.file_name)
        self._directory.sync()

    def release(self, receipt: Receipt, *, device: bytes, collector_key: bytes) -> KeptArchive | None:
        """Delete the archive that the receipt covers. None if it covers none that is still kept."""
        for archive in self._state.kept:
            if receipt.covers(
                archive=archive.sha256, size_bytes=archive.size_bytes, device=device, collector_key=collector_key
            ):
                self._change(self._state.without_archive(archive))
                return archive
        return None

    def discard(self, archive: KeptArchive) -> None:
        """Drop an archive that is damaged or gone; its records and losses are archived again."""
        if archive.entry.log == self._state.log.log:
            self._change(self._state.with_damaged(archive))
        else:
            self.begin_log("an archive of the log before was damaged", self.kept_from(archive))

    def kept_from(self, archive: KeptArchive) -> tuple[KeptArchive, ...]:
        """This archive and all later ones of the journal that wait for a receipt."""
        kept = self._state.kept
        return tuple(each for each in kept[kept.index(archive) :] if each.is_of_this_journal)

    def begin_log(self, reason: str, again: tuple[KeptArchive, ...] = (), *, set_aside: bool = False) -> None:
        """Begin a new log that continues this one, and archive these archives' records again in it. Raises: OSError.

        Their files are deleted, or set aside under another name.
        """
        for archive in again if set_aside else ():
            self._directory.rename(archive.file_name, archive.file_name + SET_ASIDE_SUFFIX)
        self._directory.sync()
        self._change(self._state.with_new_log(self._new_log(), reason, again))

    def recover(self) -> None:
        """Load the state and complete or remove what was begun. Called on opening and after a failed write."""
        self._directory.sync()  # renames of a killed process may not be durable yet
        self._state = self._read_state()
        names = set(self._directory.names())
        for archive in self._state.kept:
            for other in (_ready_name(archive), archive.file_name + SET_ASIDE_SUFFIX):
                if other in names and archive.file_name not in names:
                    self._directory.rename(other, archive.file_name)
        for name in self._directory.names():
            if (name.startswith(".") and name != RESERVE_NAME) or name in self._state.deleting:
                self._directory.remove(name)
        self._directory.sync()
        names = set(self._directory.names())
        self.missing = tuple(each.file_name for each in self._state.kept if each.file_name not in names)

    def _change(self, state: ArchiveState) -> None:
        self._write_state(state)
        for name in state.deleting:
            self._directory.remove(name)
        self._directory.sync()

    def _write_state(self, state: ArchiveState) -> None:
        self._replace_file(STATE_NAME, state.to_bytes())
        self._state = state

    def _replace_file(self, name: str, data: bytes) -> None:
        file = self._directory.create(f".{name}.new")
        try:
            file.write(data)
            file.sync()
        finally:
            file.close()
        self._directory.rename(f".{name}.new", name)
        self._directory.sync()

    def _read_state(self) -> ArchiveState:
        """The state, which is on the disk when this returns, because checkpoints name its log."""
        names = self._directory.names()
        try:
            stored = self._directory.read(STATE_NAME, 0, MAX_STATE_BYTES) if STATE_NAME in names else b""
            found = ArchiveState.from_bytes(stored) if stored else None
        except WireError:
            found = None
        state = self._rebuild(names) if found is None else self._for_journal(found)
        if state is not found:
            self._write_state(state)
        return state

    def _for_journal(self, state: ArchiveState) -> ArchiveState:
        return state.for_journal(self._journal_id, self._new_log(), self._begins)

    def _rebuild(self, names: list[str]) -> ArchiveState:
        """The state as the manifests of the archives give it, in any order, with a new log that continues theirs."""
        found = (self._find(name) for name in names if name.endswith(PLAIN_SUFFIX))
        kept = tuple(archive for archive in found if archive is not None)
        lanes = {*self._begins, *(each.lane for archive in kept for each in archive.entry.lanes)}
        log = LogHead(
            log=self._new_log(),
            previous_log=self._last_log(kept),
            begins={lane: _reach(lane, self._begins.get(lane, 0), kept) for lane in lanes},
        )
        is_first = not log.previous_log and STATE_NAME not in names and not any(log.begins.values())
        reason = "" if is_first else "the archive state was lost or damaged"
        return ArchiveState(journal_id=self._journal_id, log=log, reason=reason, kept=kept)

    def _last_log(self, kept: Iterable[KeptArchive]) -> bytes:
        """The log of the last checkpoint, or else of the newest archive; empty if nothing is left."""
        if self._stated is not None:
            return self._stated.checkpoint.log
        newest = max((archive.entry for archive in kept), key=lambda entry: entry.number, default=None)
        return b"" if newest is None else newest.log

    def _find(self, name: str) -> KeptArchive | None:
        size_bytes = self._directory.size(name)
        try:
            found = open_archive(lambda offset, count: self._directory.read(name, offset, count), size_bytes)
            archive = KeptArchive(
                file_name=name,
                sha256=bytes.fromhex(name.removesuffix(PLAIN_SUFFIX)),
                size_bytes=size_bytes,
                entry=found.manifest.entry,
                losses=tuple(loss.number for loss in found.manifest.losses),
            )
        except (WireError, ValueError):
            return None
        return archive if found.header.journal_id == self._journal_id else None


def _reach(lane: int, begin: int, kept: Iterable[KeptArchive]) -> int:
    """The position up to which archives cover the lane without a hole, from `begin` on."""
    for covered in sorted(archive.entry.range_of(lane) for archive in kept):
        if covered.first <= begin:
            begin = max(begin, covered.next)
    return begin


def _ready_name(archive: KeptArchive) -> str:
    return f".{archive.sha256.hex()}.ready"
