"""The publisher that writes files: JSON lines, or one file per message. For pipes, tests, and without a network.

Messages are on the disk before they are acknowledged, the names of their files included: one `fsync` per batch for a
regular file, none where the medium knows none (a pipe, a terminal). In a directory every message is a file of its own,
written under another name and then renamed, so that a program that watches the directory never sees a partial one;
names sort in the order of the journal.

What is written is bounded by `max_bytes`, or by one batch if that is larger. A file of lines that has its share of them
gets a number (`rotation`) and a new one begins; beyond the limit the oldest file is removed. In a directory the oldest
messages are removed. Removed messages are counted.
"""

import asyncio
import contextlib
import errno
import itertools
import logging
import os
import select
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from agent.errors import LinkDown
from agent.journal import Record
from agent.publish.contract import Acknowledged, Outcome, OutcomeQueue, RejectedRun, run_of
from agent.publish.rotation import remove_rotated, rotate, rotated
from runtime.durable_files import make_directory, sync_directory

MAX_IN_FLIGHT = 1_000
FILE_MODE = 0o640
PIPE_TIMEOUT_S = 10.0
DEFAULT_MAX_BYTES = 128 << 20
LINE_FILES = 4  # of lines: each has this part of the limit
SWEEP_SHARE = 0.9  # of the limit: how much of a directory is left when its oldest messages were removed
_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EROFS)
_CHUNK_BYTES = 1 << 20

log = logging.getLogger(__name__)


class FilePublisher:
    max_in_flight = MAX_IN_FLIGHT

    def __init__(
        self,
        name: str,
        path: Path,
        form: Literal["lines", "directory"] = "lines",
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
    ) -> None:
        """`lines`: to a file, a named pipe or `/dev/stdout`. `max_bytes`: of all files there, rotated ones included."""
        self.name = name
        self._path = path
        self._form = form
        self._max_bytes = max_bytes
        self._descriptor: int | None = None
        self._box = OutcomeQueue()
        self._directory_bytes = 0  # at most; programs that remove files are noticed when the limit is reached
        self.removed = 0  # messages, to make space for newer ones

    async def connect(self) -> None:
        await self.close()
        self._box = OutcomeQueue()
        try:
            await asyncio.to_thread(self._open)
        except OSError as problem:
            raise self._down(problem) from problem

    async def send(self, records: Sequence[Record]) -> None:
        fit = [record for record in records if self._fits(record)]
        try:
            await asyncio.to_thread(self._write, fit)
        except OSError as problem:
            raise self._down(problem) from problem
        self._box.put(*self._outcomes(records))

    async def outcomes(self) -> Sequence[Outcome]:
        return await self._box.take()

    async def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _outcomes(self, records: Sequence[Record]) -> Iterable[Outcome]:
        for (_, fits), neighbours in itertools.groupby(records, lambda record: (record.lane, self._fits(record))):
            run = run_of(list(neighbours))
            reason = "a message with a line feed cannot be written as one line"
            yield Acknowledged(*run) if fits else RejectedRun(*run, reason)

    def _fits(self, record: Record) -> bool:
        return self._form == "directory" or b"\n" not in record.payload

    def _open(self) -> None:
        if self._form == "directory":
            make_directory(self._path)
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self._directory_bytes = sum(size for _, size, _ in _messages_in(self._path))
        else:
            self._open_lines()
            self._end_torn_line()

    def _open_lines(self) -> None:
        path = self._path
        if path.is_file() or not path.exists():  # no pipe or device
            make_directory(path.parent)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._descriptor = os.open(path, flags | (os.O_NONBLOCK if path.is_fifo() else 0), FILE_MODE)
        if path.is_file():
            sync_directory(path.parent)  # also for a process that was killed before it could

    def _end_torn_line(self) -> None:
        """A line that a crash cut short gets its end, so that the next one is whole. It is sent again anyway."""
        if not self._path.is_file():
            return
        with self._path.open("rb") as file:
            file.seek(-min(1, os.fstat(file.fileno()).st_size), os.SEEK_END)
            is_torn = file.read() not in (b"", b"\n")
        if is_torn:
            _write_all(self._open_descriptor(), b"\n")

    def _write(self, records: Sequence[Record]) -> None:
        if self._form == "directory":
            descriptor = self._open_descriptor()
            for record in records:
                self._write_file(record, descriptor)
            _sync(descriptor)
            self._limit_directory()
        else:
            lines = b"".join(record.payload + b"\n" for record in records)
            self._limit_lines(len(lines))
            descriptor = self._open_descriptor()
            _write_all(descriptor, lines)
            _sync(descriptor)

    # --- the limit ---

    def _limit_lines(self, new_bytes: int) -> None:
        """Number the file if the new lines exceed its share of the limit, and remove the oldest beyond the limit."""
        path, share = self._path, self._max_bytes // LINE_FILES
        size = os.fstat(self._open_descriptor()).st_size
        if not size or size + new_bytes <= share or not path.is_file():
            return
        os.close(self._open_descriptor())
        self._descriptor = None
        rotate(path)
        self._open_lines()
        full = [(each, each.stat().st_size) for each in rotated(path)]
        total = sum(size for _, size in full) + max(share, new_bytes)
        for oldest, size in full:
            if total <= self._max_bytes:
                break
            self._note_removal(_count_lines(oldest), oldest)
            remove_rotated(oldest)
            total -= size

    def _limit_directory(self) -> None:
        if self._directory_bytes <= self._max_bytes:
            return
        found = sorted(_messages_in(self._path))
        self._directory_bytes = sum(size for _, size, _ in found)
        removed = 0
        for _, size, path in found[:-1]:
            if self._directory_bytes <= self._max_bytes * SWEEP_SHARE:
                break
            path.unlink(missing_ok=True)
            self._directory_bytes -= size
            removed += 1
        if removed:
            self._note_removal(removed, self._path)

    def _note_removal(self, count: int, path: Path) -> None:
        self.removed += count
        log.warning(
            "size limit reached, oldest published messages removed; publisher=%s path=%s messages=%d max_bytes=%d",
            self.name, path, count, self._max_bytes,
        )  # fmt: skip

    def _write_file(self, record: Record, folder: int) -> None:
        name = f"{record.lane:02}-{record.position:016}.json"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        descriptor = os.open(f".{name}.part", flags, FILE_MODE, dir_fd=folder)
        try:
            _write_all(descriptor, record.payload)
            _sync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(f".{name}.part", name, src_dir_fd=folder, dst_dir_fd=folder)
        self._directory_bytes += len(record.payload)

    def _open_descriptor(self) -> int:
        if self._descriptor is None:
            raise LinkDown(f"{self._path}: closed")
        return self._descriptor

    def _down(self, problem: OSError) -> LinkDown:
        return LinkDown(f"{self._path}: {problem.strerror or problem}")


def _messages_in(folder: Path) -> Iterator[tuple[int, int, Path]]:
    """When each was written, its size, its path."""
    for path in folder.glob("[0-9]*-[0-9]*.json"):
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
            status = path.stat()
            yield status.st_mtime_ns, status.st_size, path


def _count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(_CHUNK_BYTES), b""))


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            _wait_until_writable(descriptor)


def _wait_until_writable(descriptor: int) -> None:
    """Raises: TimeoutError if the reader of the pipe has stopped reading."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    if not poll.poll(PIPE_TIMEOUT_S * 1000):
        raise TimeoutError(f"no reader of the pipe for {PIPE_TIMEOUT_S:g} s")


def _sync(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    except OSError as problem:
        if problem.errno not in _NO_SYNC:
            raise
