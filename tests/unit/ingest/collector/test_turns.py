import asyncio
import threading

import pytest

from ingest.collector.blocking import Workers
from ingest.collector.errors import Refused
from ingest.collector.turns import Turns


async def hold(turns: Turns, key: str, log: list[str], name: str, begun: asyncio.Event, end: asyncio.Event) -> None:
    try:
        async with turns.take(key):
            log.append(f"{name} begins")
            begun.set()
            await end.wait()
            log.append(f"{name} ends")
    except Refused as refused:
        log.append(f"{name}: {refused.refusal.code}")


async def hold_in_turn(*names_and_keys: tuple[str, str]) -> list[str]:
    """Each begins before the next one comes; in the end, those that are left go."""
    turns, log, end = Turns(), list[str](), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for name, key in names_and_keys:
            begun = asyncio.Event()
            group.create_task(hold(turns, key, log, name, begun, end))
            await begun.wait()
        end.set()
    return log


def test_the_newest_request_pushes_out_the_one_before() -> None:
    assert asyncio.run(hold_in_turn(("first", "key"), ("second", "key"), ("third", "key"))) == [
        "first begins",
        "first: taken-over",
        "second begins",
        "second: taken-over",
        "third begins",
        "third ends",
    ]


def test_other_keys_are_not_disturbed() -> None:
    log = asyncio.run(hold_in_turn(("one", "key"), ("other", "other key")))
    assert log == ["one begins", "other begins", "one ends", "other ends"]


def test_a_task_that_is_cancelled_from_elsewhere_stays_cancelled() -> None:
    async def scenario() -> None:
        begun = asyncio.Event()
        task = asyncio.create_task(hold(Turns(), "key", [], "one", begun, asyncio.Event()))
        await begun.wait()
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(scenario())


def test_a_step_on_the_disk_is_awaited_to_its_end_even_when_cancelled() -> None:
    async def scenario() -> list[str]:
        workers, log = Workers(1, "test"), list[str]()
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
