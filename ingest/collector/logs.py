"""The device logs that the collector knows: `logs/<device>/<log>/`, one thread at a time for each log.

    state        what is held (`log_state`), written whole or not at all; its time is that of the last contact
    leaves-…     the digest of each number (`leaves`)
    checkpoint   the newest checkpoint of the device, with the time of its arrival

Order of durable writes: leaves → state. An archive is durable before it is appended, and its receipt is signed after
that, so each receipt is for a number that the state names. After a crash the same upload continues from there. The cost
of an archive does not depend on the length of the log.
"""

import logging
import os
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from ingest.collector import contradictions
from ingest.collector.errors import UploadRefused
from ingest.collector.leaves import Leaf, LeafFiles
from ingest.collector.log_state import MAX_RANGES, MAX_STATE_BYTES, Contradiction, HeldRange, LogState, Subject
from protocol.devicelog.checkpoint import MAX_CHECKPOINT_BYTES, Checkpoint
from protocol.devicelog.entry import LogEntry
from protocol.errors import Corrupt, WireError
from protocol.ethereum import checksum_address
from protocol.shipping import Refusal
from runtime.durable_files import PRIVATE_DIRECTORY, make_directory, replace_file, sync_directory

STATE: Final = "state"
CHECKPOINT: Final = "checkpoint"
MAX_STEPS: Final = 1024  # by which the frontier follows in one request, after a hole was filled
HOLES_RETRY_S: Final = 60

log = logging.getLogger(__name__)


class DeviceLog:
    """One log, while it is held by one thread."""

    def __init__(self, logs: "Logs", folder: Path, state: LogState) -> None:
        self._logs = logs
        self._folder = folder
        self._leaves = LeafFiles(folder)
        self.state = state

    def contradiction_of(self, entry: LogEntry, sha256: bytes) -> Contradiction | None:
        return contradictions.of_entry(self.state, self._leaves.read, entry, sha256)

    def contradiction_of_checkpoint(self, checkpoint: Checkpoint) -> Contradiction | None:
        return contradictions.of_checkpoint(self.state, self._leaves.read, checkpoint)

    def check_space(self, entry: LogEntry) -> None:
        """Raises: UploadRefused if the log has too many holes for this archive, or the device too many logs."""
        self._with_entry(entry)
        self._logs.check_count(self._folder)

    def prepare(self, entry: LogEntry | None = None) -> None:
        """Make the folder of the log, durably, for this archive or for a checkpoint. Raises: UploadRefused."""
        if entry is not None:
            self._with_entry(entry)
        self._logs.prepare(self._folder)

    def append(self, entry: LogEntry, sha256: bytes, now_ms: int) -> None:
        """Add an archive that contradicts nothing, after `prepare`. Durable when this returns; a second time changes
        nothing. Raises: UploadRefused, WireError, OSError."""
        state = self._with_entry(entry)
        leaves = {each.number: Leaf(each.sha256, b"") for each in entry.replaces}
        leaves[entry.number] = Leaf(sha256, entry.root)
        self._leaves.write({number: leaf for number, leaf in leaves.items() if not self.state.holds(number)})
        self._save(state, now_ms)

    def note_contact(self, now_ms: int, *, received: int = 0) -> None:
        """`received`: numbers below it do not wait on the device, by its checkpoint. Raises: UploadRefused."""
        state = self.state
        if received > max(state.known_size, state.received):
            state = replace(state, received=received)
        self._save(state, now_ms)

    def mark_forked(self, contradiction: Contradiction, now_ms: int) -> None:
        """Durable when this returns. Raises: WireError, OSError."""
        self._save(self.state.with_fork(contradiction, now_ms), now_ms)

    def find_checkpoint(self) -> Checkpoint | None:
        """The newest one that was stored; None if there is none, or the file is damaged."""
        try:
            return read_checkpoint(self._folder / CHECKPOINT)
        except WireError as error:
            log.warning("the next checkpoint of the device replaces this file; problem=%s", error)
            return None

    def store_checkpoint(self, data: bytes) -> None:
        """After `prepare`. Durable when this returns. Raises: OSError."""
        replace_file(self._folder / CHECKPOINT, data)

    def _with_entry(self, entry: LogEntry) -> LogState:
        """The state with the numbers of the entry that are not held."""
        state = self.state
        ranges = {each.lane: each for each in entry.lanes}
        begins = {lane: each.begin for lane, each in ranges.items()}
        starts = {lane: each.first for lane, each in ranges.items()}
        ends = {lane: each.next for lane, each in ranges.items()}
        added = [HeldRange(each.number, each.number + 1, b"", {}, {}) for each in entry.replaces]
        if len(added) == 1:  # then the archive covers what that one covered
            added = [added[0]._replace(starts=starts, ends=ends)]
        own = HeldRange(entry.number, entry.number + 1, entry.previous, starts, ends)
        added.append(own._replace(starts={}, ends={}) if entry.replaces else own)
        for each in added:
            if not state.holds(each.first):
                replaced = state.replaced + (each.first != entry.number)
                try:
                    state = replace(state.with_range(each, begins=begins), replaced=replaced)
                except ValueError:
                    problem = f"more than {MAX_RANGES - 1} holes in log {state.log.hex()}; send the missing ones first"
                    raise UploadRefused(Refusal.BUSY, problem, retry_after_s=HOLES_RETRY_S) from None
        return state

    def _save(self, state: LogState, now_ms: int) -> None:
        """Let the frontier follow, write what has changed, and note the contact. Durable, but for the contact."""
        state = self._advanced(state, now_ms)
        path = self._folder / STATE
        if state != self.state or not path.exists():
            self._logs.prepare(self._folder)
            replace_file(path, state.to_bytes())
            if len(state.forks) > len(self.state.forks):
                log.error("a device log is forked; log=%s problem=%s", path.parent, state.forks[-1].contradiction)
                self._logs.mark_forked(self._folder)
            self.state = state
            self._logs.note(path, state)
        else:
            sync_directory(self._folder)  # it may be as a process left it that was killed before syncing it
        os.utime(path, ns=(now_ms * 1_000_000, now_ms * 1_000_000))

    def _advanced(self, state: LogState, now_ms: int) -> LogState:
        """The frontier includes the archives that follow it, unless one states another root than those before it."""
        frontier = state.frontier
        after = min(state.contiguous_size, frontier.size + MAX_STEPS)
        for leaf in self._leaves.read_range(frontier.size, after):
            if leaf.root and leaf.root != frontier.root:
                state = state.with_fork(
                    Contradiction(Subject.ROOT, frontier.size, frontier.root, leaf.root), found_at_ms=now_ms
                )
                break
            frontier = frontier.append(leaf.sha256)
        return replace(state, frontier=frontier)


class Logs:
    def __init__(self, folder: Path, *, max_logs_per_device: int, mark_forked: Callable[[bytes, bytes], None]) -> None:
        """`mark_forked` gets device and log, when the fork is durable here, and again at the next start."""
        make_directory(folder, mode=PRIVATE_DIRECTORY)
        self._folder = folder
        self._max_logs = max_logs_per_device
        self._mark_forked = mark_forked
        self._locks = _Locks()
        self._creating = threading.Lock()
        self._totals_lock = threading.Lock()
        self._with_missing: set[Path] = set()
        self._forked: set[Path] = set()
        for path in sorted(folder.glob(f"*/*/{STATE}")):
            try:
                state = read_state(path)
            except WireError as error:
                log.error("uploads to this log are refused; problem=%s", error)  # noqa: TRY400 - the text says it all
                continue
            self.note(path, state)
            if state.is_forked:
                self.mark_forked(path.parent)

    @contextmanager
    def hold(self, device: bytes, log: bytes, *, previous_log: bytes, now_ms: int) -> Iterator[DeviceLog]:
        """One log for this thread alone. A new one begins with these values, once something is written.

        Raises: WireError if its state is damaged.
        """
        folder = self._folder / device.hex() / log.hex()
        with self._locks.hold(folder):
            state = LogState(log=log, previous_log=previous_log, first_contact_ms=now_ms)
            if (folder / STATE).exists():
                state = read_state(folder / STATE)
            yield DeviceLog(self, folder, state)

    def check_count(self, folder: Path) -> None:
        """Raises: UploadRefused if the folder is that of a new log, and its device has too many."""
        if not folder.is_dir() and _count_in(folder.parent) >= self._max_logs:
            device = checksum_address(bytes.fromhex(folder.parent.name))
            problem = f"{device} has {self._max_logs} logs here already; see headgate collector logs"
            raise UploadRefused(Refusal.TOO_MANY_LOGS, problem)

    def prepare(self, folder: Path) -> None:
        """Make the folder of a log, durably. Raises: UploadRefused if its device has too many."""
        if not (folder / STATE).exists():  # a state is in a durable folder
            with self._creating:
                self.check_count(folder)
                make_directory(folder, mode=PRIVATE_DIRECTORY)

    def note(self, path: Path, state: LogState) -> None:
        """Count the log in the totals."""
        with self._totals_lock:
            for paths, belongs in ((self._with_missing, state.missing()), (self._forked, state.is_forked)):
                (paths.add if belongs else paths.discard)(path)

    def mark_forked(self, folder: Path) -> None:
        self._mark_forked(bytes.fromhex(folder.parent.name), bytes.fromhex(folder.name))

    @property
    def totals(self) -> dict[str, int]:
        return {"logs_with_missing_archives": len(self._with_missing), "logs_forked": len(self._forked)}


def read_state(path: Path) -> LogState:
    """Raises: WireError that names the file; FileNotFoundError."""
    with path.open("rb") as file:
        data = file.read(MAX_STATE_BYTES + 1)
    try:
        return LogState.from_bytes(data)
    except WireError as error:
        raise Corrupt(f"{path}: {error}; restore your copy of this folder, or remove it") from error


def read_checkpoint(path: Path) -> Checkpoint | None:
    """Raises: WireError that names the file."""
    try:
        with path.open("rb") as file:
            return Checkpoint.from_bytes(file.read(MAX_CHECKPOINT_BYTES + 1))
    except FileNotFoundError:
        return None
    except WireError as error:
        raise Corrupt(f"{path}: {error}") from error


def _count_in(folder: Path) -> int:
    return sum(1 for _ in folder.iterdir()) if folder.is_dir() else 0


class _Locks:
    """One thread at a time for each key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[Hashable, tuple[threading.Lock, int]] = {}  # with the number of threads that use it

    @contextmanager
    def hold(self, key: Hashable) -> Iterator[None]:
        with self._lock:
            lock, users = self._held.get(key, (threading.Lock(), 0))
            self._held[key] = lock, users + 1
        try:
            with lock:
                yield
        finally:
            with self._lock:
                lock, users = self._held.pop(key)
                if users > 1:
                    self._held[key] = lock, users - 1
