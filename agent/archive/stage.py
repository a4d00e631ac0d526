"""The archive stage: decides when to archive, and releases the journal's records when a receipt covers them.

An archive is closed when it is full or when the oldest record has waited long enough. The journal's cursor moves only
past records that a receipt covers, so until then every record is stored twice. A loss is listed in the manifest of the
archive that would have held its messages, and stays in the journal until a receipt covers that archive: if the archive
is damaged on the disk, the loss goes into the next one.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from nacl.public import PublicKey

from agent.archive.archiver import Archiver, ArchiverSettings
from agent.archive.settings import ARCHIVE_CURSOR, ArchiveConfig, reserve_bytes
from agent.archive.state import KeptArchive
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
from protocol.errors import Corrupt
from protocol.losses import Loss

CHECK_S: Final = 1.0
RECORDS_PER_CALL: Final = 1000
BYTES_PER_CALL: Final = 1 << 20  # beyond it no further block is read

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
    ) -> None:
        """Raises: ConfigError, OSError."""
        self.folder = folder
        self.problem = ""
        self._config = config
        self._journal = journal
        self._cursor = journal.journal.cursor(ARCHIVE_CURSOR)
        self._keys = keys
        self._clock = clock
        encrypt_to = None if config.encrypt_to is None else PublicKey(read_public_key(config.encrypt_to))
        settings = ArchiverSettings(
            max_text_bytes=config.max_megabytes << 20,
            encrypt_to=encrypt_to,
            min_free_bytes=config.min_free_megabytes << 20,
            reserve_bytes=reserve_bytes(journal.journal.settings),
        )
        _check_archive_key(keys)
        self._directory = RealDirectory(folder)
        self._store = self._open_store(journal_id)
        self._archiver = Archiver(self._store, self._directory, keys, settings)
        self._lock = asyncio.Lock()  # one task at a time uses the store
        self._archived_at_s = time.monotonic()
        self._receipted: set[int] = set()  # numbers of losses, until the journal drops them
        self._work: asyncio.Future[Any] | None = None
        self._is_closing = False
        self._note_archived()
        if self._store.missing:
            log.error("archives without a receipt are missing; files=%s", ", ".join(self._store.missing))

    def _open_store(self, journal_id: bytes) -> ArchiveStore:
        lanes = self._journal.journal.stats(self._clock.now_ms()).lanes
        try:
            store = ArchiveStore(self._directory, journal_id)
            store.keep_within({number: lane.next_position for number, lane in lanes.items()})
        except OSError:
            self._directory.close()
            raise
        return store

    @property
    def kept(self) -> tuple[KeptArchive, ...]:
        """The archives that wait for a receipt, oldest first."""
        return self._store.state.kept

    def is_archived(self, lost: PendingLoss) -> bool:
        """Whether archives have all of these messages, here or at the collector."""
        archived = self._store.state.archived_up_to.get(lost.loss.lane, -1)
        is_here = ARCHIVE_CURSOR in lost.copied_by and lost.loss.last_position <= archived
        return is_here or ARCHIVE_CURSOR not in lost.missed_by

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
            await asyncio.sleep(min(CHECK_S, self._config.every_s))

    async def archive_all(self) -> None:
        """Archive everything that is committed now and not archived yet."""
        async with self._lock:
            waiting, _ = await self._journal.call(self._waiting)
            records = self._records(waiting)
            try:
                while archive := await self._in_thread(partial(self._archive_one, records)):
                    log.info("archived; file=%s bytes=%d", archive.file_name, archive.size_bytes)
            except StorageError as error:
                self._note_problem(str(error))
                await self._journal.call(self._cursor.rewind)
            else:
                self._note_problem("")
        self._archived_at_s = time.monotonic()

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
            await self._journal.call(self._note_archived)
            await self._journal.call(self._cursor.rewind)
            self._archived_at_s = -self._config.every_s  # due at once

    async def close(self) -> None:
        """Close when the archive being written is complete; it is closed early."""
        self._is_closing = True
        if self._work is not None:
            await asyncio.wait([self._work])
        self._directory.close()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Run it in a thread. If the caller is cancelled, the work is still finished, and `close` waits for it."""
        task = self._work = asyncio.ensure_future(asyncio.to_thread(work))
        return await asyncio.shield(task)

    async def _is_due(self) -> bool:
        waiting, average_bytes = await self._journal.call(self._waiting)
        is_full = waiting * average_bytes >= self._config.max_megabytes << 20
        is_time = time.monotonic() - self._archived_at_s >= self._config.every_s
        return is_full or (is_time and (waiting > 0 or await self._journal.call(self._has_unreported_losses)))

    def _waiting(self) -> tuple[int, float]:
        """The number of readings in no archive yet, and the average size of one in its message."""
        stats = self._journal.journal.stats(self._clock.now_ms())
        archived = self._store.state.archived_up_to
        waiting = sum(
            max(0, lane.next_position - max(archived.get(number, -1) + 1, lane.first_position))
            for number, lane in stats.lanes.items()
        )
        return waiting, stats.payload_bytes / max(1, stats.readings)

    def _archive_one(self, records: Iterator[Record]) -> KeptArchive | None:
        losses = partial(self._journal.call_from_thread, self._losses)
        archive = self._archiver.archive(records, losses, now_ms=self._clock.now_ms())
        self._journal.call_from_thread(self._note_archived)
        return archive

    def _note_archived(self) -> None:
        self._cursor.note_copied(self._store.state.archived_up_to)

    def _losses(self) -> list[Loss]:
        pending = self._journal.journal.pending_losses()
        return [each.loss for each in pending if not self.is_archived(each) and not self.is_receipted(each)]

    def _has_unreported_losses(self) -> bool:
        return not self._store.state.reported_losses().issuperset(loss.number for loss in self._losses())

    def _records(self, count: int) -> Iterator[Record]:
        """Records of the next `count` readings that are in no archive yet; later ones are left for the next archive."""
        while count > 0 and not self._is_closing:
            if not (read := self._journal.call_from_thread(partial(self._read, count))):
                return
            fresh = [record for record in read if not self._store.is_archived(record.lane, record.position)]
            count -= sum(record.readings for record in fresh)
            yield from map(to_archive_record, fresh)

    def _read(self, count: int) -> list[JournalRecord]:
        """Read several blocks in one call to the journal's thread. In an overload each call waits for a commit, so with
        one block per call records would be shed faster than they are archived."""
        read: list[JournalRecord] = []
        size_bytes = 0
        while len(read) < min(count, RECORDS_PER_CALL) and size_bytes < BYTES_PER_CALL:
            if not (more := self._cursor.take(min(count, RECORDS_PER_CALL) - len(read))):
                break
            read += more
            size_bytes += sum([len(record.payload) for record in more])
        return read

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


def to_archive_record(record: JournalRecord) -> Record:
    return Record(
        text=record.payload,
        chain=record.chain,
        timestamp_ms=record.timestamp_ms,
        sequence=record.sequence,
        lane=record.lane,
        position=record.position,
        arrived_at_ms=record.committed_at_ms,
        readings=record.readings,
    )
