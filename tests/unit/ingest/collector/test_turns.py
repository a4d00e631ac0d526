import asyncio
import threading

import pytest

from ingest.collector.blocking import Workers
from ingest.collector.errors import Refused
from ingest.collector.turns import Turns


async def hold(turns: Turns, key: str, log: list[str], name: str, release: asyncio.Event) -> None:
    try:
        async with turns.take(key):
            log.append(f"{name} begins")
            await release.wait()
            log.append(f"{name} ends")
    except Refused as refused:
        log.append(f"{name}: {refused.refusal.code}")


def test_the_newest_request_pushes_out_the_one_before() -> None:
    async def scenario() -> list[str]:
        turns, log, release = Turns(), list[str](), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for name in ("first", "second", "third"):
                group.create_task(hold(turns, "key", log, name, release))
                while f"{name} begins" not in log:
                    await asyncio.sleep(0)
            release.set()
        return log

    assert asyncio.run(scenario()) == [
        "first begins",
        "first: taken-over",
        "second begins",
        "second: taken-over",
        "third begins",
        "third ends",
    ]


def test_other_keys_are_not_disturbed() -> None:
    async def scenario() -> list[str]:
        turns, log, release = Turns(), list[str](), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(hold(turns, "one", log, "one", release))
            group.create_task(hold(turns, "other", log, "other", release))
            await asyncio.sleep(0)
            release.set()
        return log

    assert sorted(asyncio.run(scenario())) == ["one begins", "one ends", "other begins", "other ends"]


def test_a_task_that_is_cancelled_from_elsewhere_stays_cancelled() -> None:
    async def scenario() -> None:
        turns = Turns()
        task = asyncio.create_task(hold(turns, "key", [], "one", asyncio.Event()))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(scenario())


def test_a_step_on_the_disk_is_awaited_to_its_end_even_when_cancelled() -> None:
    async def scenario() -> list[str]:
        workers, log = Workers(), list[str]()
        begun, release = threading.Event(), threading.Event()

        def step() -> None:
            begun.set()
            release.wait(10)
            log.append("step ends")

        task = asyncio.create_task(workers.run(step))
        await asyncio.to_thread(begun.wait, 10)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        assert not task.done()
        release.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        log.append("task ends")
        workers.close()
        return log

    assert asyncio.run(scenario()) == ["step ends", "task ends"]
