"""The publisher that writes files: JSON lines, or one file per message. For pipes, tests, and without a network.

Messages are on the disk before they are acknowledged: one `fsync` per batch for a regular file, none where the medium
knows none (a pipe, a terminal). In a directory every message is a file of its own, written under another name and then
renamed, so that whoever watches the directory never sees half of one; names sort in the order of the journal.
"""

import asyncio
import errno
import itertools
import os
import select
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agent.errors import LinkDown
from agent.journal import Record
from agent.publish.contract import Acknowledged, Outcome, Refused, run_of
from agent.publish.outcome_box import OutcomeBox

__all__ = ["FilePublisher", "FileSettings"]

MAX_IN_FLIGHT = 1_000
FILE_MODE = 0o640
PIPE_TIMEOUT_S = 10.0
_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EROFS)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSettings:
    """Where to write: `lines` to a file, a named pipe or `/dev/stdout`; `directory`, one file per message."""

    path: Path
    form: Literal["lines", "directory"] = "lines"


class FilePublisher:
    max_in_flight = MAX_IN_FLIGHT

    def __init__(self, name: str, settings: FileSettings) -> None:
        self.name = name
        self._settings = settings
        self._descriptor: int | None = None
        self._box = OutcomeBox()

    async def connect(self) -> None:
        await self.close()
        self._box = OutcomeBox()
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
            reason = "a message with a line feed does not fit on one line"
            yield Acknowledged(*run) if fits else Refused(*run, reason)

    def _fits(self, record: Record) -> bool:
        return self._settings.form == "directory" or b"\n" not in record.payload

    def _open(self) -> None:
        path = self._settings.path
        if self._settings.form == "directory":
            path.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._descriptor = os.open(path, flags | (os.O_NONBLOCK if path.is_fifo() else 0), FILE_MODE)
            self._end_torn_line()

    def _end_torn_line(self) -> None:
        """A line that a crash cut short gets its end, so that the next one is whole. It is sent again anyway."""
        if not self._settings.path.is_file():
            return
        with self._settings.path.open("rb") as file:
            file.seek(-min(1, os.fstat(file.fileno()).st_size), os.SEEK_END)
            is_torn = file.read() not in (b"", b"\n")
        if is_torn:
            _write_all(self._open_descriptor(), b"\n")

    def _write(self, records: Sequence[Record]) -> None:
        descriptor = self._open_descriptor()
        if self._settings.form == "directory":
            for record in records:
                self._write_file(record, descriptor)
        else:
            _write_all(descriptor, b"".join(record.payload + b"\n" for record in records))
        _sync(descriptor)

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

    def _open_descriptor(self) -> int:
        if self._descriptor is None:
            raise LinkDown(f"{self._settings.path}: is closed")
        return self._descriptor

    def _down(self, problem: OSError) -> LinkDown:
        return LinkDown(f"{self._settings.path}: {problem.strerror or problem}")


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            _wait_until_writable(descriptor)


def _wait_until_writable(descriptor: int) -> None:
    """Raises: TimeoutError, where whoever reads the pipe has stopped to."""
    if not select.select([], [descriptor], [], PIPE_TIMEOUT_S)[1]:
        raise TimeoutError(f"nobody has read the pipe for {PIPE_TIMEOUT_S:g} s")


def _sync(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    except OSError as problem:
        if problem.errno not in _NO_SYNC:
            raise
