"""The storage as the event loop sees it: one thread writes, one reads, and nothing here blocks the loop."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from node.errors import StorageError
from node.storage.database import open_reader, open_writer
from node.storage.messages import Entry, MessageWriter
from node.storage.queries import ResendQuery, read_page, start_resend
from node.storage.registry import PartTotals, RegistryTables, read_grants, read_streams, read_totals
from node.streams import Grant, Stream, StreamPart

__all__ = ["Storage"]

Result = TypeVar("Result")


class Storage:
    """Everything the node keeps. Every method raises `StorageError` where the disk fails."""

    def __init__(self, directory: Path) -> None:
        self._writer = open_writer(directory)
        self._reader = open_reader(directory)
        self._messages = MessageWriter(self._writer)
        self._registry = RegistryTables(self._writer)
        self._write_thread = ThreadPoolExecutor(1, "storage-write")
        self._read_thread = ThreadPoolExecutor(1, "storage-read")

    def load(self) -> tuple[list[Stream], list[tuple[int, Grant]]]:
        """All streams and grants. Blocks: for the start only."""
        return list(read_streams(self._reader)), list(read_grants(self._reader))

    def close(self) -> None:
        """Wait for what is being written, then close. Blocks: for the end only."""
        self._read_thread.shutdown()
        self._write_thread.shutdown()
        self._reader.close()
        self._writer.close()

    async def append(self, batch: Sequence[Entry], now_s: int) -> list[bool]:
        """Store the batch, durably. For each entry, whether it is new."""
        return await self._write(lambda: self._messages.append(batch, now_s))

    async def resend(self, part: StreamPart, query: ResendQuery) -> AsyncIterator[list[str]]:
        """The messages asked for, in order, in pages that are not empty."""
        place = await self._read(lambda: start_resend(self._reader, part, query))
        while place is not None:
            here = place
            bodies, place = await self._read(lambda here=here: read_page(self._reader, here))  # type: ignore[misc]
            if bodies:
                yield bodies

    async def put_stream(self, stream: Stream, grants: list[Grant]) -> list[int]:
        return await self._write(lambda: self._registry.put_stream(stream, grants))

    async def delete_stream(self, stream_id: str) -> None:
        def delete() -> None:
            self._registry.delete_stream(stream_id)
            self._messages.forget_numbers()

        await self._write(delete)

    async def put_grant(self, grant: Grant) -> int:
        return await self._write(lambda: self._registry.put_grant(grant))

    async def delete_grant(self, number: int) -> None:
        await self._write(lambda: self._registry.delete_grant(number))

    async def totals(self) -> list[PartTotals]:
        return await self._read(lambda: read_totals(self._reader))

    async def used_bytes(self) -> int:
        return await self._read(lambda: used_bytes(self._reader))

    async def delete_old(self, part: int, before_s: int, limit: int) -> int:
        return await self._write(lambda: self._messages.delete_old(part, before_s, limit))

    async def delete_first(self, limit: int) -> int:
        return await self._write(lambda: self._messages.delete_first(limit))

    async def drop_empty_parts(self) -> None:
        await self._write(self._messages.drop_empty_parts)

    async def _write(self, job: Callable[[], Result]) -> Result:
        return await _run(self._write_thread, job)

    async def _read(self, job: Callable[[], Result]) -> Result:
        return await _run(self._read_thread, job)


async def _run(thread: ThreadPoolExecutor, job: Callable[[], Result]) -> Result:
    try:
        return await asyncio.get_running_loop().run_in_executor(thread, job)
    except sqlite3.Error as problem:
        raise StorageError(f"the database failed: {problem}; is the disk full or damaged?") from problem


def used_bytes(connection: sqlite3.Connection) -> int:
    """What the tables take up in the file; pages that were freed are not counted, for they are used again."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    return int((pages - free) * page_bytes)
