"""The journal, and the one thread that uses it.

A commit waits for the disk, and may not hold up the event loop. Since the journal is for one thread at a time, all that
is done to it is done here, in the order of the calls. A batch of signatures keeps a core busy: it is made in a second
thread, or the journal's readers would wait for signatures in an overload.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from agent.clock import Clock
from agent.errors import StorageError
from agent.journal import DirectoryDisk, Journal
from agent.journal.inspection import View, inspect_journal
from protocol.reference import Reference

JOURNAL_ID_BYTES: Final = 16  # as archives and gap notices carry it
T = TypeVar("T")


class JournalThread:
    def __init__(self, journal: Journal, clock: Clock) -> None:
        self.journal = journal
        self._clock = clock
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="journal")
        self._signing = ThreadPoolExecutor(max_workers=1, thread_name_prefix="signing")

    async def call(self, function: Callable[[], T]) -> T:
        """Run it in the journal's thread. A caller that is cancelled leaves the work to be finished."""
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._executor, function))

    async def call_beside(self, function: Callable[[], T]) -> T:
        """Run it in the thread of signatures, one at a time, where it may use `call_from_thread`; else as `call`."""
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._signing, function))

    def call_from_thread(self, function: Callable[[], T]) -> T:
        """The same for a caller in another thread, who may wait."""
        return self._executor.submit(function).result()

    async def tick(self) -> None:
        """Save positions if it is time to. Raises: StorageError."""
        await self.call(lambda: self.journal.tick(self._clock.now_ms()))

    async def close(self) -> None:
        """Finish what is being signed and committed, and close the journal. Raises: StorageError."""
        await asyncio.to_thread(self._signing.shutdown, wait=True)
        try:
            await self.call(lambda: self.journal.close(self._clock.now_ms()))
        finally:
            self._executor.shutdown(wait=True)


def read_floor(disk: DirectoryDisk) -> Reference | None:
    """The latest reference in the journal; None if it is empty or its last records cannot be read."""
    view = inspect_journal(disk)
    lasts = []
    for lane in view.lanes.values():
        if lane.first_position < lane.next_position:
            record = next(view.records(lane, lane.next_position - 1), None)
            if record is None:
                return None
            lasts.append(Reference(record.timestamp_ms, record.sequence))
    return max(lasts, default=None)


def durable_view(disk: DirectoryDisk, journal: Journal) -> View:
    """A view of an open journal, without what an earlier process wrote and is not durable yet."""
    view = inspect_journal(disk)
    for number, lane in view.lanes.items():
        lane.next_position = min(lane.next_position, journal.durable_position(number))
    return view


def open_journal_id(disk: DirectoryDisk) -> bytes:
    """The identity under which losses and archives of this journal are reported. Raises: StorageError, OSError."""
    journal_id = inspect_journal(disk).state.journal_id
    if not journal_id:
        raise StorageError("the journal has no identity yet")
    return journal_id.to_bytes(JOURNAL_ID_BYTES)
