"""What a driver gives becomes batches; sources are acknowledged when they are durable."""

import asyncio
import contextlib
from collections.abc import Collection

from agent.collect import MAX_SENSORS, Batch, Collector, LatestReadings
from drivers import Driver, Reading
from tests.support.patience import PATIENCE_S


class ListDriver(Driver):
    KIND = "list"

    def __init__(self, *reads: list[Reading]) -> None:
        super().__init__("list")
        self.acknowledged: list[int] = []
        self._reads = list(reads)

    async def open(self) -> None: ...

    async def read(self) -> list[Reading]:
        if not self._reads:
            await asyncio.Event().wait()
        return self._reads.pop(0)

    async def acknowledge(self, tokens: Collection[int]) -> None:
        self.acknowledged += tokens

    async def close(self) -> None: ...


def reading(token: int | None) -> Reading:
    return Reading("s", "q", 1, taken_at_ms=1, token=token)


async def batches_of(driver: Driver, count: int) -> list[Batch]:
    queue: asyncio.Queue[Batch] = asyncio.Queue(10)
    collecting = asyncio.create_task(Collector(driver, queue, lambda _: None).run())
    async with asyncio.timeout(PATIENCE_S):
        batches = [await queue.get() for _ in range(count)]
    collecting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await collecting
    return batches


def test_nothing_is_acknowledged_before_the_commit() -> None:
    async def run() -> None:
        driver = ListDriver([reading(1), reading(1), reading(2)], [reading(3)])
        first, second = await batches_of(driver, 2)
        assert driver.acknowledged == []
        await first.committed()
        assert driver.acknowledged == [1, 2]
        await second.committed()
        assert driver.acknowledged == [1, 2, 3]

    asyncio.run(run())


def test_a_collector_that_is_stopped_while_the_queue_is_full_and_run_again_loses_no_reading() -> None:
    async def run() -> None:
        driver = ListDriver([reading(1)], [reading(2)], [reading(3)])
        queue: asyncio.Queue[Batch] = asyncio.Queue(1)
        collector = Collector(driver, queue, lambda _: None)
        collecting = asyncio.create_task(collector.run())
        while len(driver._reads) > 1:  # noqa: ASYNC110 - the second reading waits for a place in the queue
            await asyncio.sleep(0)
        collecting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await collecting
        collecting = asyncio.create_task(collector.run())
        async with asyncio.timeout(10):
            batches = [await queue.get() for _ in range(3)]
        collecting.cancel()
        assert [each.token for batch in batches for each in batch.readings] == [1, 2, 3]

    asyncio.run(run())


def test_a_source_without_acknowledgements_gets_none() -> None:
    async def run() -> None:
        driver = ListDriver([reading(None)])
        [batch] = await batches_of(driver, 1)
        await batch.committed()
        assert driver.acknowledged == []

    asyncio.run(run())


def test_the_last_reading_of_each_sensor_and_quantity_is_kept() -> None:
    latest = LatestReadings()
    latest.note([Reading("a", "t", 1, taken_at_ms=1), Reading("a", "t", 2, taken_at_ms=2)])
    latest.note([Reading("a", "u", 3, taken_at_ms=3), Reading("b", "t", 4, taken_at_ms=4)])
    assert {name: reading.value for name, reading in latest.readings.items()} == {
        ("a", "t"): 2,
        ("a", "u"): 3,
        ("b", "t"): 4,
    }


def test_a_payload_is_not_held() -> None:
    latest = LatestReadings()
    latest.note([Reading("camera", "photo", b"x" * 5000, taken_at_ms=7, mime_type="image/jpeg")])
    (reading,) = latest.readings.values()
    assert (reading.value, reading.taken_at_ms) == ("5000 bytes", 7)


def test_a_source_that_invents_names_costs_bounded_memory() -> None:
    latest = LatestReadings()
    for number in range(3 * MAX_SENSORS):
        latest.note([Reading(f"s{number}", "t", number, taken_at_ms=1)])
    latest.note([Reading("s0", "t", -1, taken_at_ms=2)])
    assert len(latest.readings) == MAX_SENSORS
    assert latest.has_more
    assert latest.readings["s0", "t"].value == -1, "those that are known go on"
