"""A source that sends again what is not acknowledged, beside another on the same lane, over lives that end anywhere.

The real commit stage, journal, token log and clock ceiling write to one recorded folder. What the device knows as
durable must be in the journal or published from it, exactly once, after whatever sequence of power cuts, kills and
failed syncs. What is published is released, so that positions that were noted may be gone when a process starts.
"""

import asyncio
import contextlib
import errno
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.clock import CeilingFile, ChainReferences, SystemClock
from agent.collect import Batch
from agent.commit import Committer
from agent.errors import StorageError
from agent.events.events import Events
from agent.journal import DirectoryDisk, Journal, JournalSettings, Record
from agent.journal.inspection import inspect_journal
from agent.journal.thread import JournalThread, durable_view
from agent.journal.token_log import TokenLog
from agent.pack.routing import Router, StreamRule
from agent.pack.wrap import Wrapper
from drivers import Reading
from firmware_bridge.received import Boot, ReceivedByBoot, SampleName
from protocol.ethereum.signer import Signer
from protocol.events import REFUSED_INFO_TYPE, RefusedNotice
from protocol.iomessage import IoMessage
from protocol.iomessage.content import decode_content
from protocol.link import Record as LinkRecord
from protocol.link import Sample
from protocol.scalars import decode_scalar
from protocol.streamr.stream_message import parse_stream_message
from tests.effort import seeds
from tests.support.crashing_folder import CrashingFolder
from tests.support.patience import PATIENCE_S

SIGNER = Signer(b"\x07" * 32)
SETTINGS = JournalSettings(max_bytes=8 << 20, segment_bytes=64 << 10, compression="none", positions_interval_ms=0)
BOOT = Boot.of("mcu", b"12345678")
RULES = [StreamRule(stream="x/all")]
LARGE_BYTES = 3_000  # of readings that fill a segment soon
TOO_LARGE_BYTES = 100_000

Messages = dict[tuple[int, int], IoMessage]  # by lane and position of the reading


class Crash(BaseException):
    """The process ends here."""


class Device:
    """Has its records until they are acknowledged as durable."""

    def __init__(self) -> None:
        self.first_kept = 0
        self.next_rseq = 0
        self.refused = 0  # readings of another source that no message can hold, acknowledged to it
        self.published: Messages = {}  # by the agent

    def waiting(self) -> list[int]:
        return list(range(self.first_kept, self.next_rseq))


class Life:
    """One process: the commit stage as the pipeline builds it."""

    def __init__(self, folder: Path, disk: DirectoryDisk, chance: random.Random) -> None:
        clock = SystemClock()
        self.chance = chance
        tokens = TokenLog(folder)
        journal = Journal(disk, SETTINGS, new_journal_id=1, now_ms=clock.now_ms())
        tokens.compare(durable_view(disk, journal))
        self.thread = JournalThread(journal, clock)
        self.ceiling = CeilingFile(folder / "clock.ceiling")
        references = ChainReferences(self.ceiling, None)
        self.queue = asyncio.Queue[Batch](4)
        self.committer = Committer(
            self.queue,
            self.thread,
            Wrapper(SIGNER, references, max_payload_bytes=SETTINGS.max_payload_bytes),
            Router(RULES, {"address": "0x", "device": "d"}),
            clock,
            tokens,
            commit_records=100,
            commit_interval_s=0.0,
            on_commit=lambda: None,
            report_refused=Events(self.queue, "d", "x/events", clock).of_refused,
        )
        self.received = ReceivedByBoot()
        self.received.recall(*tokens.recall("mcu"))

    async def run(self, device: Device, *, is_device_there: bool) -> None:
        committing = asyncio.create_task(self.committer.run())
        try:
            async with asyncio.timeout(PATIENCE_S):
                feeding = asyncio.create_task(self.feed(device, is_device_there=is_device_there))
                done, _ = await asyncio.wait({committing, feeding}, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            committing.cancel()
            feeding.cancel()
            await asyncio.wait({committing, feeding})
            with contextlib.suppress(Crash, StorageError), contextlib.closing(self.ceiling):
                await self.thread.close()

    async def feed(self, device: Device, *, is_device_there: bool) -> None:
        for _ in range(4):
            if not is_device_there or self.chance.random() < 0.5:
                values = [Reading("other", "q", 1, taken_at_ms=1) for _ in range(self.chance.randint(1, 3))]
                await self.queue.put(Batch("mqtt", values))
            if self.chance.random() < 0.2:
                await self.send_too_much(device)
            if is_device_there:
                await self.talk_to(device)
        if not is_device_there and self.chance.random() < 0.5:
            await self.queue.put(Batch("mqtt", [_raw(LARGE_BYTES) for _ in range(40)]))
            await self.queue.join()
            await self.thread.call(lambda: self.publish(device.published))
        await self.queue.join()

    def publish(self, published: Messages) -> None:
        cursor = self.thread.journal.cursor("publisher")
        while records := cursor.take(100):
            published.update(reading for record in records for reading in readings_of(record))
            cursor.acknowledge(records[-1].lane, records[-1].next_position - 1)

    async def send_too_much(self, device: Device) -> None:
        async def committed() -> None:
            device.refused += 1

        await self.queue.put(Batch("mqtt", [_raw(TOO_LARGE_BYTES)], None, committed))

    async def talk_to(self, device: Device) -> None:
        device.next_rseq += self.chance.randint(0, 2)
        records = self.received.of(BOOT)
        readings = []
        for rseq in device.waiting():
            record = LinkRecord(rseq=rseq, uptime_ms=0, samples=(Sample(0, rseq),))
            for sample in records.accept(record):
                token = SampleName(BOOT, rseq, sample).token
                readings.append(Reading("mcu", "q", rseq, taken_at_ms=1, token=token))
        is_reported = self.chance.random() < 0.7

        async def committed() -> None:
            self.received.commit([reading.token for reading in readings if reading.token is not None])
            if is_reported:
                device.first_kept = max(device.first_kept, records.committed_rseq)

        if readings:
            await self.queue.put(Batch("mcu", readings, None, committed, has_durable_tokens=True))
        else:
            device.first_kept = max(device.first_kept, records.committed_rseq)


def _raw(size: int) -> Reading:
    return Reading("other", "q", bytes(size), taken_at_ms=1, mime_type="application/octet-stream")


def stored(folder: Path) -> Messages:
    with contextlib.closing(DirectoryDisk(folder / "journal", read_only=True)) as disk:
        view = inspect_journal(disk)
        records = (record for lane in view.lanes.values() for record in view.records(lane))
        return {place: message for record in records for place, message in readings_of(record)}


def readings_of(record: Record) -> Iterator[tuple[tuple[int, int], IoMessage]]:
    """The readings of a message by their places."""
    messages = decode_content(parse_stream_message(record.payload).content)
    assert len(messages) == record.readings
    for position, message in enumerate(messages, record.position):
        yield (record.lane, position), message


class Fate:
    """How one process fares: it dies before some operation, often right after a note, and syncs of its notes may fail.

    What a dead process tries does not happen.
    """

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._left = chance.randint(1, 80) if chance.random() < 0.4 else 1_000_000
        self._dies_in_note = chance.random() < 0.3
        self._dies_after_note = chance.random() < 0.5
        self._is_failing = chance.random() < 0.4

    def before_each(self) -> None:
        self._left -= 1
        if self._left <= 0:
            raise Crash

    def fault(self, operation: str, path: str) -> int | None:
        if not path.startswith("tokens"):
            return None
        if operation == "write" and self._dies_in_note:
            self._left = 1  # before the sync
        if operation != "sync":
            return None
        if self._is_failing and self._chance.random() < 0.4:
            if self._chance.random() < 0.7:
                self._left = 1  # so that the next process finds in the cache what the medium does not have
            return errno.EIO
        if self._dies_after_note and self._chance.random() < 0.5:
            self._left = self._chance.randint(1, 2)  # before or after the commit
        return None


def live(folder: CrashingFolder, device: Device, chance: random.Random, *, is_device_there: bool) -> None:
    fate = Fate(chance)
    with contextlib.suppress(Crash), contextlib.closing(DirectoryDisk(folder.path / "journal")) as disk:
        folder.before_each, folder.fault = fate.before_each, fate.fault
        life = Life(folder.path, disk, chance)
        asyncio.run(life.run(device, is_device_there=is_device_there))
    folder.before_each, folder.fault = lambda: None, lambda _operation, _path: None


@pytest.mark.parametrize("seed", seeds(test=24, soak=3000))
def test_what_was_acknowledged_to_the_device_is_stored_exactly_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr("agent.commit.RETRY_S", 0.0)
    chance, device, path = random.Random(seed), Device(), tmp_path / "data"
    for life in range(4):  # each ends with a power cut; before it, the process is killed or stopped and started again
        with CrashingFolder(path) as folder:
            for _ in range(chance.randint(1, 4)):
                live(folder, device, chance, is_device_there=chance.random() < 0.6)
                check(path, device)
            path = folder.after_power_loss(tmp_path / f"found-{life}", chance)
        check(path, device)


def check(path: Path, device: Device) -> None:
    in_journal = stored(path) if (path / "journal").exists() else {}
    assert all(in_journal.get(place, message) == message for place, message in device.published.items())
    messages = (device.published | in_journal).values()
    numbers = [int(str(decode_scalar(each.content_data or b""))) for each in messages if each.tag == "mcu"]
    found = Counter(numbers)
    assert [rseq for rseq in range(device.first_kept) if not found[rseq]] == [], "acknowledged and lost"
    assert [rseq for rseq, count in found.items() if count > 1] == [], "stored twice"
    notices = [each.content_data or b"" for each in messages if each.info_type == REFUSED_INFO_TYPE]
    assert sum(RefusedNotice.from_bytes(each).count for each in notices) >= device.refused, "refused without a notice"
