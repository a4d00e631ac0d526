"""Stores messages that a destination rejected, each with the reason, as one JSON object per line.

The file is for the operator, to see what a destination does not accept and to send it again by hand. With archives
configured the message is also in an archive. Without them the file is the only copy, so:

- When `add` returns, the messages and the name of the file are durable. If the disk fails, `add` raises, and the
  messages stay in the journal.
- The files are bounded: at `max_bytes` a new one begins, and beyond `max_files` the oldest is removed. If no archive
  has its messages, `on_removal` records them as lost before the file is removed.

After a crash a message may be in the files twice, and a torn line is followed by a complete one.
"""

import base64
import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import orjson

from agent.errors import StorageError
from agent.journal import Record
from agent.journal.records import loss_of
from agent.publish.rotation import remove_rotated, rotate, rotated
from protocol.losses import Cause
from runtime.durable_files import make_directory, sync_directory, write_all

MAX_BYTES: Final = 8 * 1024 * 1024
MAX_FILES: Final = 4
MAX_REASON_CHARACTERS: Final = 1_000
FILE_MODE: Final = 0o640
FOLDER_MODE: Final = 0o750

log = logging.getLogger(__name__)


class RejectedRecord(NamedTuple):
    record: Record
    reason: str


class Quarantine:
    """The files of one publisher. Any thread may call it."""

    def __init__(
        self,
        path: Path,
        publisher: str,
        *,
        max_bytes: int = MAX_BYTES,
        max_files: int = MAX_FILES,
        on_removal: Callable[[Sequence[Record]], None] | None = None,
    ) -> None:
        """`on_removal`: is given the messages (without their payloads) of a file that is about to be removed."""
        self.path = path
        self._publisher = publisher
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._on_removal = on_removal
        self._is_named = False  # whether the file's name is known to be durable
        self._lock = threading.Lock()

    def add(self, entries: Sequence[RejectedRecord], now_ms: int) -> None:
        """Return when the entries are durable. Raises: StorageError; then they may not be."""
        lines = b"".join(self._line(entry, now_ms) for entry in entries)
        with self._lock:
            try:
                self._rotate_if_full()
                self._append(lines)
            except OSError as problem:
                raise StorageError(
                    f"refused messages cannot be stored in {self.path}: {problem.strerror or problem}"
                ) from problem

    def _rotate_if_full(self) -> None:
        if not self._is_named:
            make_directory(self.path.parent, mode=FOLDER_MODE)
        if self.path.exists() and self.path.stat().st_size >= self._max_bytes:
            self._is_named = False
            rotate(self.path)
        full = rotated(self.path)
        for oldest in full[: max(0, len(full) - self._max_files + 1)]:
            self._remove(oldest)

    def _remove(self, oldest: Path) -> None:
        records = list(_records_in(oldest))
        if self._on_removal is not None:
            self._on_removal(records)
        remove_rotated(oldest)
        readings = sum(record.readings for record in records)
        log.warning("oldest refused messages removed; file=%s readings=%d messages=%d", oldest, readings, len(records))

    def _append(self, lines: bytes) -> None:
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            size = os.fstat(descriptor).st_size
            is_torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            try:
                write_all(descriptor, b"\n" + lines if is_torn else lines)
                os.fsync(descriptor)
            except OSError:
                with contextlib.suppress(OSError):  # so that a retry writes and syncs all of it again
                    os.ftruncate(descriptor, size)
                raise
        finally:
            os.close(descriptor)
        if not self._is_named:
            sync_directory(self.path.parent)
            self._is_named = True

    def _line(self, entry: RejectedRecord, now_ms: int) -> bytes:
        record = entry.record
        fields = {
            "quarantined_at_ms": now_ms,
            "publisher": self._publisher,
            "reason": entry.reason[:MAX_REASON_CHARACTERS],
            "lane": record.lane,
            "position": record.position,
            "chain": record.chain,
            "timestamp_ms": record.timestamp_ms,
            "sequence": record.sequence,
            "readings": record.readings,
            **_payload_fields(record.payload),
        }
        return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)


def _payload_fields(payload: bytes) -> dict[str, str]:
    try:
        return {"message": payload.decode()}
    except UnicodeDecodeError:
        return {"message_base64": base64.b64encode(payload).decode()}


def _records_in(path: Path) -> Iterator[Record]:
    """Each message once, without its payload; a line that is torn or was edited is skipped."""
    seen: set[tuple[int, int]] = set()
    with path.open("rb") as file:
        for line in file:
            with contextlib.suppress(ValueError, TypeError, KeyError):
                found = orjson.loads(line)
                place = int(found["position"]), int(found["lane"])
                reference = str(found["chain"]), int(found["timestamp_ms"]), int(found["sequence"])
                at_ms, readings = int(found["quarantined_at_ms"]), int(found["readings"])
                record = Record(place[0], place[1], b"", *reference, at_ms, readings)
                loss_of(record, Cause.REFUSED)  # fails if its loss could not be recorded
                if place not in seen:
                    seen.add(place)
                    yield record
