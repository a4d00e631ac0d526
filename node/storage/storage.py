"""The storage for the event loop: one thread writes, one thread reads, and no call blocks the loop."""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from node.limits import NO_LIMITS, Quota
from node.storage.arrival_queries import ArrivalQuery, StoredText, read_arrival_page, start_arrivals
from node.storage.database import lock_directory, open_reader, open_writer, translate_errors
from node.storage.messages import Entry, MessageWriter, Outcome
from node.storage.queries import ResendQuery, read_latest, read_page, start_resend
from node.storage.registry import (
    PartTotals,
    RegistryTables,
    StoredStream,
    read_grants,
    read_stored_streams,
    read_totals,
)
from node.streams import Grant, StreamPart

MAX_LATEST_MESSAGES: Final = 2_000
MAX_LATEST_CHARACTERS: Final = 2 * 1024 * 1024

P = ParamSpec("P")
Result = TypeVar("Result")


class Storage:
    """All stored data of the node. Every method raises `StorageError` if the disk fails."""

    def __init__(self, directory: Path, chain_quota: Quota | None = None) -> None:
        """Raises: `StorageError`; OSError if the directory cannot be made."""
        self.directory = directory
        self.chain_quota = chain_quota or Quota("chains", NO_LIMITS)
        with ExitStack() as opened:
            opened.callback(os.close, lock_directory(directory))
            self._writer = opened.enter_context(closing(open_writer(directory)))
            self._reader = opened.enter_context(closing(open_reader(directory)))
            with translate_errors():
                self.messages = MessageWriter(self._writer, self.chain_quota)
            self._opened = opened.pop_all()
        self.tables = RegistryTables(self._writer)
        self._write_thread = ThreadPoolExecutor(1, "storage-write")
        self._read_thread = ThreadPoolExecutor(1, "storage-read")

    def load(self) -> tuple[list[StoredStream], list[tuple[int, Grant]]]:
        """All streams and grants. Blocks: only for the start."""
        with translate_errors():
            return list(read_stored_streams(self._reader)), list(read_grants(self._reader))

    def latest(
        self,
        since_s: int = 0,
        *,
        max_messages: int = MAX_LATEST_MESSAGES,
        max_characters: int = MAX_LATEST_CHARACTERS,
    ) -> list[str]:
        """The messages that were stored last, but not before `since_s`, newest first, within these limits.

        Blocks: only for the start.
        """
        with translate_errors():
            return read_latest(self._reader, since_s, max_messages, max_characters)

    def delete_strays(self) -> int:
        """Delete grants on streams that do not exist. Returns how many. Blocks: only for the start."""
        with translate_errors():
            return self.tables.delete_strays()

    def close(self) -> None:
        """Wait for what is being written, then close. Blocks: only for the stop."""
        self._read_thread.shutdown()
        self._write_thread.shutdown()
        self._opened.close()

    async def append(self, batch: Sequence[Entry], now_s: int) -> list[Outcome]:
        """Store the batch durably. Returns the outcome of each entry."""
        return await self.write(self.messages.append, batch, now_s)

    async def resend(self, part: StreamPart, query: ResendQuery) -> AsyncIterator[list[str]]:
        """The requested messages, in order, in pages that are not empty."""
        place = await self._read(lambda: start_resend(self._reader, part, query))
        while place is not None:
            bodies, place = await self._read(partial(read_page, self._reader, place))
            if bodies:
                yield bodies

    async def resend_by_arrival(self, part: StreamPart, query: ArrivalQuery) -> AsyncIterator[list[StoredText]]:
        """The requested messages with their offsets, in order of arrival, in pages that are not empty."""
        arrivals = await self._read(lambda: start_arrivals(self._reader, part, query))
        while arrivals is not None:
            texts, arrivals = await self._read(partial(read_arrival_page, self._reader, arrivals))
            if texts:
                yield texts

    async def delete_stream(self, stream_id: str) -> None:
        def delete() -> None:
            self.tables.delete_stream(stream_id)
            self.messages.clear_cache()

        await self.write(delete)

    async def totals(self) -> list[PartTotals]:
        return await self._read(lambda: read_totals(self._reader))

    async def used_bytes(self) -> int:
        return await self._read(lambda: used_bytes(self._reader))

    async def write(self, job: Callable[P, Result], *arguments: P.args, **options: P.kwargs) -> Result:
        """Call a method of `tables` or `messages` in the thread that writes."""
        return await _run(self._write_thread, partial(job, *arguments, **options))

    async def _read(self, job: Callable[[], Result]) -> Result:
        return await _run(self._read_thread, job)


async def _run(thread: ThreadPoolExecutor, job: Callable[[], Result]) -> Result:
    with translate_errors():
        return await asyncio.get_running_loop().run_in_executor(thread, job)


def used_bytes(connection: sqlite3.Connection) -> int:
    """The size of the tables in the file, without free pages, which are used again."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    return int((pages - free) * page_bytes)
