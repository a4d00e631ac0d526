import asyncio
from pathlib import Path

import pytest

from agent.clock import ClockReading
from agent.collect import Batch
from agent.events.events import EVENT_PRIORITY, Events, report_losses, watch_clock
from agent.journal import DirectoryDisk, Entry, Journal, JournalSettings, PendingLoss
from agent.journal.thread import JournalThread
from drivers import DeviceChange, DeviceState
from protocol.clock import CORRECTION_INFO_TYPE, ClockCorrection
from protocol.events import GAP_INFO_TYPE, GapNotice
from protocol.lifecycle import DEVICE_INFO_TYPE, DeviceNotice
from tests.support.patience import PATIENCE_S

JOURNAL_ID = bytes(range(16))


class FakeClock:
    def __init__(self, now_ms: int = 1000, *, is_synchronised: bool = True) -> None:
        self.time_ms = now_ms
        self.is_synchronised = is_synchronised

    def now_ms(self) -> int:
        return self.time_ms

    def read(self) -> ClockReading:
        return ClockReading(
            now_ms=self.time_ms,
            monotonic_ms=500,
            boot_id=bytes(16),
            is_synchronised=self.is_synchronised,
            max_error_ms=7,
        )


def _events(queue: asyncio.Queue[Batch], clock: FakeClock | None = None) -> Events:
    return Events(queue, "bench", "0xab/bench/events", clock or FakeClock())


def _journal_with_losses(folder: Path) -> Journal:
    settings = JournalSettings(max_bytes=400_000, segment_bytes=16_384, compression="none")
    journal = Journal(DirectoryDisk(folder), settings, new_journal_id=1, now_ms=0)
    for at in range(600):
        journal.append(4, Entry(bytes(1000), "x#0/c", at, 0))
        journal.commit(0)
    return journal


def test_a_loss_is_forgotten_only_when_its_message_is_committed_and_a_receipt_covers_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.events.events.LOSS_CHECK_S", 0.001)
    journal = _journal_with_losses(tmp_path)
    first = journal.pending_losses()[0].number
    asked: asyncio.Queue[int] = asyncio.Queue()
    receipted: set[int] = set()

    def is_receipted(gap: PendingLoss) -> bool:
        asked.put_nowait(gap.number)
        return gap.number in receipted

    async def run() -> None:
        queue = asyncio.Queue[Batch](64)
        thread = JournalThread(journal, FakeClock())
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
            telling = group.create_task(
                report_losses(_events(queue), thread, JOURNAL_ID, lambda _: False, is_receipted)
            )
            batch = await queue.get()
            _assert_tells_of_loss(batch, first)
            assert asked.empty()
            await batch.committed()
            assert await asked.get() == first
            assert first in {gap.number for gap in await thread.call(journal.pending_losses)}
            receipted.add(first)
            while first in {gap.number for gap in await thread.call(journal.pending_losses)}:
                await asked.get()
            telling.cancel()
        await thread.close()

    asyncio.run(run())


def _assert_tells_of_loss(batch: Batch, number: int) -> None:
    assert batch.route is not None
    assert batch.route.priority == EVENT_PRIORITY
    (reading,) = batch.readings
    assert reading.quantity == GAP_INFO_TYPE
    assert isinstance(reading.value, bytes)
    assert GapNotice.from_bytes(reading.value).loss.number == number


def test_a_step_of_the_clock_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.events.events.CLOCK_CHECK_S", 0.001)

    async def run() -> None:
        queue, clock = asyncio.Queue[Batch](64), FakeClock(now_ms=1_000)
        async with asyncio.timeout(PATIENCE_S):
            watching = asyncio.create_task(watch_clock(_events(queue, clock), clock))
            first = await queue.get()
            clock.time_ms = 90_000
            second = await queue.get()
            watching.cancel()
        reported = [ClockCorrection.from_bytes(batch.readings[0].value) for batch in (first, second)]  # type: ignore[arg-type]
        assert [correction.utc_ms for correction in reported] == [1_000, 90_000]
        assert first.readings[0].quantity == CORRECTION_INFO_TYPE
        assert queue.empty()

    asyncio.run(run())


def test_a_change_of_the_state_of_a_device_is_reported() -> None:
    change = DeviceChange(
        device="boiler", before=DeviceState.UP, after=DeviceState.DOWN, at_ms=5, lasted_ms=7, reason="no reply"
    )

    async def run() -> None:
        queue = asyncio.Queue[Batch](4)
        events = _events(queue)
        async with asyncio.timeout(PATIENCE_S):
            passing = asyncio.create_task(events.report_device_changes())
            events.device_changed(change)
            (reading,) = (await queue.get()).readings
            passing.cancel()
        assert (reading.sensor, reading.quantity) == ("bench", DEVICE_INFO_TYPE)
        assert isinstance(reading.value, bytes)
        assert DeviceNotice.from_bytes(reading.value).after == "down"

    asyncio.run(run())


def test_a_device_that_flickers_costs_bounded_memory() -> None:
    change = DeviceChange(
        device="boiler", before=DeviceState.UP, after=DeviceState.DOWN, at_ms=5, lasted_ms=7, reason=""
    )
    events = _events(asyncio.Queue[Batch](1))
    for _ in range(10_000):
        events.device_changed(change)
    assert events._changes.full()
