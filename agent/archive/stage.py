"""The archive stage: decides when to archive, and releases the journal's records when a receipt covers them.

An archive is closed when it is full or when the oldest record has waited long enough. The journal's cursor moves only
past records that a receipt covers, so until then every record is stored twice. A loss is listed in the manifest of the
archive that would have held its messages, and stays in the journal until a receipt covers that archive: if the archive
is damaged on the disk, the loss goes into the next one.

The archives form the device log. A checkpoint states how long it is and how far the journal is archived.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from nacl.public import PublicKey

from agent.archive.archiver import Archiver, ArchiverSettings
from agent.archive.checkpoints import Facts, describe_log
from agent.archive.reading import LaneRecords, take_several
from agent.archive.settings import ARCHIVE_CURSOR, ArchiveConfig, reserve_bytes
from agent.archive.state import ArchiveState, KeptArchive
from agent.archive.store import ArchiveStore, RealDirectory
from agent.clock import Clock
from agent.errors import ConfigError, StorageError
from agent.journal import PendingLoss
from agent.journal import Record as JournalRecord
from agent.journal.thread import JournalThread
from agent.keys import DeviceKeys
from agent.keys.files import read_public_key
from protocol.archive.receipt import Receipt
from protocol.archive.records import Record
from protocol.devicelog.checkpoint import Checkpoint, CheckpointStatement, sign_checkpoint
from protocol.errors import Corrupt
from protocol.losses import Loss

CHECK_S: Final = 1.0

T = TypeVar("T")
log = logging.getLogger(__name__)


class Archiving:
    """Owns the archive directory. `run` is one task of the pipeline; the shipper calls `release` with a receipt."""

    def __init__(
        self,
        config: ArchiveConfig,
        folder: Path,
        journal: JournalThread,
        journal_id: bytes,
        keys: DeviceKeys,
        clock: Clock,
        *,
        configuration: Callable[[], bytes],
    ) -> None:
        """`configuration`: the SHA-256 of the configuration in use. Raises: ConfigError, StorageError, OSError."""
        self.config = config
        self.folder = folder
        self.problem = ""
        self._journal = journal
        self._cursor = journal.journal.cursor(ARCHIVE_CURSOR)
        self._keys = keys
        self._clock = clock
        self._configuration = configuration
        encrypt_to = None if config.encrypt_to is None else PublicKey(read_public_key(config.encrypt_to))
        settings = ArchiverSettings(
            max_text_bytes=config.max_megabytes << 20,
            encrypt_to=encrypt_to,
            min_free_bytes=config.min_free_megabytes << 20,
            reserve_bytes=reserve_bytes(journal.journal.settings),
        )
        _check_archive_key(keys)
        self._directory = RealDirectory(folder)
        try:
            self._store = self._open_store(journal_id)
        except (OSError, StorageError):
            self._directory.close()
            raise
        self._archiver = Archiver(self._store, self._directory, keys, settings)
        self._lock = asyncio.Lock()  # one task at a time uses the store
        self._checkpoint_lock = asyncio.Lock()
        self._archived_at_s = time.monotonic()
        self._receipted: set[int] = set()  # numbers of losses, until the journal drops them
        self._work: set[asyncio.Future[Any]] = set()
        self._is_closing = False
        self._note_archived()
        if self._store.missing:
            log.error("archives without a receipt are missing; files=%s", ", ".join(self._store.missing))

    def _open_store(self, journal_id: bytes) -> ArchiveStore:
        """Positions that an archive or a checkpoint has stated are never used a second time."""
        journal, now_ms = self._journal.journal, self._clock.now_ms()
        lanes = journal.stats(now_ms).lanes
        begins = {each: max(lane.first_position, self._cursor.position(each)) for each, lane in lanes.items()}
        store = ArchiveStore(self._directory, journal_id, begins)
        for number, position in store.stated_positions().items():
            if position > (lanes[number].next_position if number in lanes else 0):
                log.error("journal lost readings that were stated before; lane=%d next_position=%d", number, position)
                journal.advance_to(number, position, now_ms)
        return store

    @property
    def state(self) -> ArchiveState:
        return self._store.state

    @property
    def kept(self) -> tuple[KeptArchive, ...]:
        """The archives that wait for a receipt, oldest first."""
        return self._store.state.kept

    def is_archived(self, lost: PendingLoss) -> bool:
        """Whether archives have all of these messages, here or at the collector."""
        loss = lost.loss
        is_covered = self._store.state.covers(loss.lane, loss.first_position, loss.last_position)
        return (ARCHIVE_CURSOR in lost.copied_by and is_covered) or ARCHIVE_CURSOR not in lost.missed_by

    def is_receipted(self, lost: PendingLoss) -> bool:
        """Whether the collector has a manifest with this loss, or needs none because it has the messages."""
        if ARCHIVE_CURSOR not in lost.missed_by or lost.number in self._receipted:
            return True
        is_released = self._cursor.position(lost.loss.lane) > lost.loss.last_position
        return self.is_archived(lost) and is_released and lost.number not in self._store.state.reported_losses()

    async def run(self) -> None:
        await self._acknowledge_released()
        while True:
            if await self._is_due():
                await self.archive_all()
            await asyncio.sleep(min(CHECK_S, self.config.every_s))

    async def archive_all(self) -> None:
        """Archive everything that is committed now and not archived yet, first of all what damaged archives held."""
        async with self._lock:
            try:
                while self._store.state.damaged and not self._is_closing:
                    ranges = self._store.state.damaged[0].ranges
                    await self._archive_up_to({lane: after for lane, (_, after) in ranges.items()})
                    await self._journal.call(self._cursor.rewind)
                await self._archive_up_to(await self._journal.call(self._committed))
            except StorageError as error:
                self._note_problem(str(error))
                await self._journal.call(self._cursor.rewind)
            else:
                self._note_problem("")
        self._archived_at_s = time.monotonic()

    async def _archive_up_to(self, limits: Mapping[int, int]) -> None:
        """Raises: StorageError."""
        records = LaneRecords(self._read, limits)
        iterator = iter(records)
        while archive := await self._in_thread(partial(self._archive_one, iterator, records)):
            log.info("archived; file=%s bytes=%d", archive.file_name, archive.size_bytes)

    async def release(self, receipt: Receipt, collector_key: bytes) -> KeptArchive | None:
        """Delete the archive that the receipt covers, and release its records. None if it covers none of ours."""
        async with self._lock:
            released = await self._in_thread(
                partial(self._store.release, receipt, device=self._keys.address, collector_key=collector_key)
            )
            await self._in_thread(self._archiver.restore_reserve)
        if released is not None:
            pending = await self._journal.call(self._journal.journal.pending_losses)
            self._receipted = {*self._receipted, *released.losses} & {each.number for each in pending}
        await self._acknowledge_released()
        return released

    async def archive_again(self, archive: KeptArchive) -> None:
        """Archive its records again, because the file is damaged or gone. Raises: OSError."""
        async with self._lock:
            await self._in_thread(partial(self._store.discard, archive))
            await self._start_over()

    async def begin_log(self, reason: str, refused: KeptArchive | None = None) -> None:
        """Begin a new log that continues this one. Raises: OSError.

        The records of an archive that the collector refused, and of all later ones, are archived again in the new log.
        """
        async with self._lock:
            again = () if refused is None else self._store.kept_from(refused)
            is_complete = await self._journal.call(partial(self._holds, again))
            await self._in_thread(partial(self._store.begin_log, reason, again, set_aside=not is_complete))
            await self._start_over()
        log.error("new device log begins; log=%s reason=%s", self.state.log.log.hex(), reason)
        if not is_complete:
            log.error("archives that the journal no longer holds are set aside; folder=%s", self.folder)

    def _holds(self, archives: Iterable[KeptArchive]) -> bool:
        """Whether the journal still has all that these archives hold. In the journal's thread."""
        lanes = self._journal.journal.stats(self._clock.now_ms()).lanes
        shed = [each.loss for each in self._journal.journal.pending_losses() if ARCHIVE_CURSOR in each.copied_by]
        return not any(
            (lanes[each.lane].first_position > each.first if each.lane in lanes else True)
            or any(loss.lane == each.lane and loss.last_position >= each.first for loss in shed)
            for archive in archives
            for each in archive.entry.lanes
            if each.first < each.next
        )

    async def _start_over(self) -> None:
        """Read the journal again from the first record without a receipt, and archive at once."""
        await self._journal.call(self._note_archived)
        await self._journal.call(self._cursor.rewind)
        self._archived_at_s = -self.config.every_s

    async def checkpoint(self) -> Checkpoint:
        """Make a checkpoint of what is durable now. It is on the disk when this returns. Raises: OSError."""
        async with self._checkpoint_lock:
            statement = await self._journal.call(self._describe_log)
            checkpoint = sign_checkpoint(statement, self._keys.sign_archive)
            await self._in_thread(partial(self._store.state_checkpoint, checkpoint))
        return checkpoint

    def _describe_log(self) -> CheckpointStatement:
        """In the journal's thread. The archives' state is read first: the journal is never behind it.

        After a crash, the end of the journal may be in doubt for a moment. What was stated before holds nevertheless.
        """
        state, reading = self._store.state, self._clock.read()
        facts = Facts(self._keys.binding, reading.boot_id, reading.now_ms, self._configuration())
        committed, stated = self._committed(), self._store.stated_positions()
        highest = {lane: max(committed.get(lane, 0), stated.get(lane, 0)) for lane in {*committed, *stated}}
        return describe_log(state, highest, facts)

    async def close(self) -> None:
        """Close when the archive being written is complete; it is closed early."""
        self._is_closing = True
        if self._work:
            await asyncio.wait(self._work)
        self._directory.close()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Run it in a thread. If the caller is cancelled, the work is still finished, and `close` waits for it."""
        task = asyncio.ensure_future(asyncio.to_thread(work))
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return await asyncio.shield(task)

    async def _is_due(self) -> bool:
        waiting, average_bytes = await self._journal.call(self._waiting)
        is_full = waiting * average_bytes >= self.config.max_megabytes << 20
        is_time = time.monotonic() - self._archived_at_s >= self.config.every_s
        return is_full or (is_time and (waiting > 0 or await self._journal.call(self._has_more)))

    def _waiting(self) -> tuple[int, float]:
        """The number of readings in no archive yet, and the average size of a reading."""
        stats = self._journal.journal.stats(self._clock.now_ms())
        end = self._store.state.log.end
        waiting = sum(
            max(0, lane.next_position - max(end(number), lane.first_position)) for number, lane in stats.lanes.items()
        )
        return waiting, stats.payload_bytes / max(1, stats.readings)

    def _committed(self) -> dict[int, int]:
        """Lane → the next position, after everything durable. In the journal's thread."""
        journal = self._journal.journal
        return {lane: journal.durable_position(lane) for lane in journal.stats(self._clock.now_ms()).lanes}

    def _archive_one(self, records: Iterator[Record], source: LaneRecords) -> KeptArchive | None:
        losses = partial(self._journal.call_from_thread, self._losses)
        archive = self._archiver.archive(records, losses, now_ms=self._clock.now_ms(), read_up_to=lambda: source.up_to)
        self._journal.call_from_thread(self._note_archived)
        return archive

    def _note_archived(self) -> None:
        self._cursor.note_copied(self._store.state.copied_up_to())

    def _losses(self) -> list[Loss]:
        pending = self._journal.journal.pending_losses()
        return [each.loss for each in pending if not self.is_archived(each) and not self.is_receipted(each)]

    def _has_more(self) -> bool:
        """Whether there is something to archive besides records."""
        state = self._store.state
        return bool(state.damaged) or not state.reported_losses().issuperset(loss.number for loss in self._losses())

    def _read(self, lane: int) -> list[JournalRecord] | None:
        """The next records of a lane; None to close the archive early."""
        if self._is_closing:
            return None
        return self._journal.call_from_thread(partial(take_several, self._cursor, lane))

    async def _acknowledge_released(self) -> None:
        released = {lane: position for lane, position in self._store.state.released_up_to().items() if position >= 0}
        await self._journal.call(lambda: self._acknowledge(released))

    def _acknowledge(self, released: dict[int, int]) -> None:
        known = self._journal.journal.stats(self._clock.now_ms()).lanes
        for lane, position in released.items():
            if lane in known and position < known[lane].next_position:
                self._cursor.acknowledge(lane, position)

    def _note_problem(self, problem: str) -> None:
        if problem and problem != self.problem:
            log.error("archiving failed, trying again; problem=%s", problem)
        self.problem = problem


def _check_archive_key(keys: DeviceKeys) -> None:
    """Check the archive key before anything is archived. Raises: ConfigError."""
    try:
        keys.binding  # noqa: B018 - computes it and compares it with the published one
    except Corrupt as error:
        raise ConfigError(f"device.key_file: {error}; restore the file from a backup") from None
