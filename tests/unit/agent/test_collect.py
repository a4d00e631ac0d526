"""What a driver gives becomes batches; who is told that a reading is safe, and when."""

import asyncio
import contextlib
from collections.abc import Collection

from agent.batch import Batch
from agent.collect import Collector
from drivers import Driver, Reading


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
    async with asyncio.timeout(10):
        batches = [await queue.get() for _ in range(count)]
    collecting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await collecting
    return batches


def test_nothing_is_acknowledged_until_whoever_commits_says_so() -> None:
    async def run() -> None:
        driver = ListDriver([reading(1), reading(1), reading(2)], [reading(3)])
        first, second = await batches_of(driver, 2)
        assert driver.acknowledged == []
        await first.committed()
        assert driver.acknowledged == [1, 2]
        await second.committed()
        assert driver.acknowledged == [1, 2, 3]

    asyncio.run(run())


def test_a_source_that_cannot_be_told_is_not() -> None:
    async def run() -> None:
        driver = ListDriver([reading(None)])
        [batch] = await batches_of(driver, 1)
        await batch.committed()
        assert driver.acknowledged == []

    asyncio.run(run())
