"""A device with a log for tests: archives that follow each other, checkpoints, and copies that fork."""

import hashlib
from dataclasses import dataclass, field
from typing import Any

from protocol.archive.records import Record
from protocol.archive.writer import ArchiveWriter
from protocol.devicelog.checkpoint import Checkpoint, CheckpointStatement, LaneState, sign_checkpoint
from protocol.devicelog.entry import LogEntry, Replaced
from protocol.devicelog.log import LogHead
from protocol.shipping import ClaimStatement, UploadClaim, sign_claim
from tests.support.archives import BINDING, EMPTY_LOG, HEADER, entry_of, record, sign, write_archive
from tests.support.collectors import COLLECTOR_KEY

RECORDS_PER_ARCHIVE = 10


@dataclass(slots=True, kw_only=True)
class LoggingDevice:
    head: LogHead = EMPTY_LOG
    flavour: bytes = b""  # devices with another flavour write other archives
    archives: list[bytes] = field(default_factory=list)

    def archive(self) -> bytes:
        """The next archive of the log."""
        return self._append(write_archive(self._records(len(self.archives)), head=self.head))

    def replacement(self, number: int) -> bytes:
        """The next archive of the log, which holds the records of this one, which was damaged."""
        writer = ArchiveWriter(HEADER, sign=sign)
        records = self._records(number)
        data = b"".join([writer.begin(), *map(writer.add, records)])
        ranges = {each.lane: (each.first, each.next) for each in entry_of(self.archives[number]).lanes}
        replaced = Replaced(number, hashlib.sha256(self.archives[number]).digest())
        return self._append(data + writer.finish(self.head.replacement(ranges, (replaced,))))

    def _records(self, number: int) -> list[Record]:
        first = number * RECORDS_PER_ARCHIVE
        texts = [b'["%d","%b"]' % (first + index, self.flavour) for index in range(RECORDS_PER_ARCHIVE)]
        return [record(first + index, text=text) for index, text in enumerate(texts)]

    def _append(self, data: bytes) -> bytes:
        self.head = self.head.append(entry_of(data), hashlib.sha256(data).digest())
        self.archives.append(data)
        return data

    def archives_made(self, count: int) -> list[bytes]:
        return [self.archive() for _ in range(count)]

    def copy(self, flavour: bytes) -> "LoggingDevice":
        """The same device, from a copy of its card."""
        return LoggingDevice(head=self.head, flavour=flavour, archives=list(self.archives))

    def checkpoint(self, *, waiting: int = 0, not_archived: int = 5, **changes: Any) -> Checkpoint:
        lanes = tuple(
            LaneState(lane, self.head.begin(lane), end + not_archived, end, end, 0)
            for lane, end in sorted(self.head.ends.items())
        )
        fields: dict[str, Any] = {
            "binding": BINDING,
            "log": self.head.log,
            "previous_log": self.head.previous_log,
            "size": self.head.size,
            "root": self.head.frontier.root,
            "last": self.head.last,
            "lanes": lanes,
            "boot": b"b" * 16,
            "made_at_ms": 1_700_000_000_000,
            "agent_version": "1.2.3",
            "configuration": b"f" * 32,
            "waiting": waiting,
            "waiting_bytes": 1000 * waiting,
        }
        return sign_checkpoint(CheckpointStatement(**{**fields, **changes}), sign)


def claim_with(data: bytes, entry: LogEntry, *, collector_key: bytes = COLLECTOR_KEY) -> UploadClaim:
    """A claim that states this entry, whatever the archive says."""
    statement = ClaimStatement(
        binding=BINDING,
        archive=hashlib.sha256(data).digest(),
        size_bytes=len(data),
        entry=entry,
        collector_key=collector_key,
    )
    return sign_claim(statement, sign)
