"""What a destination refuses, or a file publisher has written, over lives that end anywhere, without archives.

Journal, quarantine and published files are in one crashing folder. After every power cut each record that was committed
is still before the cursor, or in the quarantine, or in the published files, or recorded as lost.
"""

import asyncio
import contextlib
import errno
import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.errors import StorageError
from agent.journal import DirectoryDisk, Entry, Journal, JournalSettings, Record
from agent.publish import CursorSource, Quarantine, SenderSettings
from agent.publish.contract import Outcome, OutcomeQueue, Publisher, RejectedRun, run_of
from agent.publish.file import FilePublisher
from agent.publish.rotation import rotated
from runtime.backoff import Backoff
from tests.effort import seeds
from tests.support.crashing_folder import CrashingFolder
from tests.support.draining_sender import DrainingSender
from tests.support.patience import PATIENCE_S

SETTINGS = JournalSettings(max_bytes=4 << 20, segment_bytes=64 << 10, compression="none", positions_interval_ms=0)
QUICK = SenderSettings(backoff=Backoff(first_s=0.001, max_s=0.001))
RECORDS = 6  # of each life


class Crash(BaseException):
    """The process ends here."""


class RefusingPublisher:
    """A destination that accepts nothing."""

    name = "cloud"
    max_in_flight = 4

    async def connect(self) -> None:
        self.box = OutcomeQueue()

    async def send(self, records: Sequence[Record]) -> None:
        self.box.put(*(RejectedRun(*run_of([record]), "no") for record in records))

    async def outcomes(self) -> Sequence[Outcome]:
        return await self.box.take()

    async def close(self) -> None: ...


class Device:
    def __init__(self, kind: str, chance: random.Random) -> None:
        self.kind = kind
        self.chance = chance
        self.committed = 0

    def publisher(self, folder: Path) -> Publisher:
        if self.kind == "refusing":
            return RefusingPublisher()
        return FilePublisher("file", folder / "out" / "lines", max_bytes=60_000)

    def live(self, folder: Path, disk: DirectoryDisk) -> None:
        journal = Journal(disk, SETTINGS, new_journal_id=1, now_ms=1)
        start = self.committed
        journal.append_many(4, [Entry(b'"%d"' % at, "chain", 1, at) for at in range(start, start + RECORDS)])
        journal.commit(1)
        self.committed += RECORDS

        def record_lost(records: Sequence[Record]) -> None:
            journal.record_refused(records, "publisher", 1)

        path = folder / "quarantine" / "cloud.jsonl"
        quarantine = Quarantine(path, "cloud", max_bytes=500, max_files=3, on_removal=record_lost)
        source = CursorSource(journal.cursor("publisher"))
        asyncio.run(self.deliver(DrainingSender(self.publisher(folder), source, quarantine, QUICK)))
        journal.close(1)

    async def deliver(self, delivery: DrainingSender) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await delivery.run_until_drained()

    def check(self, folder: Path) -> None:
        """Where each committed record is, by what the next life finds."""
        with contextlib.closing(DirectoryDisk(folder / "journal")) as disk:
            journal = Journal(disk, SETTINGS, new_journal_id=1, now_ms=1)
            cursor, found = journal.cursor("publisher"), set[int]()
            while records := cursor.take(1000):
                found |= {record.sequence for record in records}
            for gap in journal.pending_losses():
                assert gap.loss.first is not None
                assert gap.loss.last is not None
                found |= set(range(gap.loss.first.sequence, gap.loss.last.sequence + 1))
        found |= set(numbers_in(folder / "quarantine" / "cloud.jsonl", "message"))
        found |= set(numbers_in(folder / "out" / "lines"))
        assert set(range(self.committed)) <= found


def numbers_in(path: Path, field: str | None = None) -> list[int]:
    files = [*rotated(path), path] if path.parent.exists() else []
    lines = [line for each in files if each.exists() for line in each.read_bytes().splitlines()]
    numbers = []
    for line in lines:
        with contextlib.suppress(ValueError, KeyError, TypeError):
            document = json.loads(line)
            numbers.append(int(document if field is None else json.loads(document[field])))
    return numbers


def live(folder: CrashingFolder, device: Device) -> None:
    chance = device.chance
    left = chance.randint(1, 60) if chance.random() < 0.9 else 1_000_000
    is_failing = chance.random() < 0.4

    def count_down() -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            raise Crash

    def fault(operation: str, path: str) -> int | None:
        is_met = is_failing and operation == "sync" and path.startswith(("quarantine", "out")) and chance.random() < 0.2
        return errno.EIO if is_met else None

    folder.before_each, folder.fault = count_down, fault
    with contextlib.suppress(Crash, StorageError), contextlib.closing(DirectoryDisk(folder.path / "journal")) as disk:
        device.live(folder.path, disk)
    folder.before_each, folder.fault = lambda: None, lambda _operation, _path: None


@pytest.mark.parametrize("kind", ["refusing", "file"])
@pytest.mark.parametrize("seed", seeds(test=6, soak=2000))
def test_no_record_is_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, seed: int) -> None:
    monkeypatch.setattr("agent.publish.sender.QUARANTINE_RETRY_S", 0.0)
    monkeypatch.setattr("agent.publish.file.LINE_FILES", 1000)  # of 60 bytes, so that none is removed
    chance = random.Random(seed)
    device, path = Device(kind, chance), tmp_path / "data"
    for cut in range(3):
        with CrashingFolder(path, chance) as folder:
            for _ in range(chance.randint(1, 3)):
                live(folder, device)
            path = folder.after_power_loss(tmp_path / f"found-{cut}", chance)
        device.check(path)
