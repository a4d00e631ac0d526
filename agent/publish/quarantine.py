"""Messages that a far end refused, with the reason, one JSON object per line.

The message itself is not lost by being refused: it stays on its way to the archive. This file is for the operator, to
see what a far end does not like and to send it again by hand.

Limits: the file is begun anew at `max_bytes`; the one before is kept beside it as `….1`. What `add` returned from is on
the disk. A disk that refuses costs the entry, is logged once per change, and stops nothing.
"""

import base64
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import orjson

from agent.journal import Record

__all__ = ["Quarantine", "SetAside"]

DEFAULT_MAX_BYTES = 8 * 1024 * 1024
MAX_REASON_CHARACTERS = 1_000
FILE_MODE = 0o640

log = logging.getLogger(__name__)


class SetAside(NamedTuple):
    record: Record
    reason: str


@dataclass(slots=True)
class Quarantine:
    """The file of one publisher."""

    path: Path
    publisher: str
    max_bytes: int = DEFAULT_MAX_BYTES
    is_failing: bool = False

    def add(self, entries: Sequence[SetAside], now_ms: int) -> None:
        lines = b"".join(self._line(entry, now_ms) for entry in entries)
        try:
            self._append(lines)
        except OSError as problem:
            if not self.is_failing:
                log.error("refused messages cannot be set aside; file=%s problem=%s", self.path, problem)  # noqa: TRY400
            self.is_failing = True
        else:
            self.is_failing = False

    def _append(self, lines: bytes) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        with open(descriptor, "ab", closefd=True) as file:  # noqa: PTH123 - a descriptor, not a path
            file.write(lines)
            file.flush()
            os.fsync(descriptor)
            is_full = file.tell() >= self.max_bytes
        if is_full:
            self.path.replace(self.path.with_name(self.path.name + ".1"))

    def _line(self, entry: SetAside, now_ms: int) -> bytes:
        record = entry.record
        told = {
            "set_aside_at_ms": now_ms,
            "publisher": self.publisher,
            "reason": entry.reason[:MAX_REASON_CHARACTERS],
            "lane": record.lane,
            "position": record.position,
            "chain": record.chain,
            "timestamp_ms": record.timestamp_ms,
            "sequence": record.sequence,
            **_payload_fields(record.payload),
        }
        return orjson.dumps(told, option=orjson.OPT_APPEND_NEWLINE)


def _payload_fields(payload: bytes) -> dict[str, str]:
    try:
        return {"message": payload.decode()}
    except UnicodeDecodeError:
        return {"message_base64": base64.b64encode(payload).decode()}
