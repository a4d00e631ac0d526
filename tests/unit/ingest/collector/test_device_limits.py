"""Limits per device: rates, and one request at a time for each archive."""

import asyncio
import threading

import pytest

from ingest.collector.blocking import Workers
from ingest.collector.device_limits import MAX_DEVICES, ArchiveLocks, DeviceRates
from ingest.collector.errors import UploadRefused
from ingest.collector.settings import Limits
from tests.support.patience import PATIENCE_S


def test_a_device_that_asks_too_often_is_refused_until_it_waited() -> None:
    rates = DeviceRates(Limits(device_requests_per_s=2))
    for _ in range(4):
        rates.count_request(b"one", now_s=0)
    with pytest.raises(UploadRefused, match="too often") as refused:
        rates.count_request(b"one", now_s=0)
    assert refused.value.retry_after_s == 1
    rates.count_request(b"another", now_s=0)
    rates.count_request(b"one", now_s=0.5)


def test_refused_requests_do_not_make_the_wait_longer() -> None:
    rates = DeviceRates(Limits(device_requests_per_s=1))
    rates.count_request(b"one", now_s=0)
    rates.count_request(b"one", now_s=0)
    for _ in range(1000):
        with pytest.raises(UploadRefused):
            rates.count_request(b"one", now_s=0)
    rates.count_request(b"one", now_s=1)


def test_the_number_of_devices_in_memory_is_bounded() -> None:
    rates = DeviceRates(Limits())
    for number in range(MAX_DEVICES + 10):
        rates.count_bytes(number.to_bytes(20, "big"), 1, now_s=0)
    assert len(rates._buckets) == MAX_DEVICES


async def hold(
    locks: ArchiveLocks, key: str, log: list[str], name: str, begun: asyncio.Event, end: asyncio.Event
) -> None:
    try:
        async with locks.hold(key):
            log.append(f"{name} begins")
            begun.set()
            await end.wait()
            log.append(f"{name} ends")
    except UploadRefused as refused:
        log.append(f"{name}: {refused.refusal.code}")


async def hold_in_sequence(*names_and_keys: tuple[str, str]) -> list[str]:
    """Each begins before the next one comes; in the end, those that are left go."""
    locks, log, end = ArchiveLocks(), list[str](), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for name, key in names_and_keys:
            begun = asyncio.Event()
            group.create_task(hold(locks, key, log, name, begun, end))
            await begun.wait()
        end.set()
    return log


def test_the_newest_request_replaces_the_previous_one() -> None:
    assert asyncio.run(hold_in_sequence(("first", "key"), ("second", "key"), ("third", "key"))) == [
        "first begins",
        "first: taken-over",
        "second begins",
        "second: taken-over",
        "third begins",
        "third ends",
    ]


def test_other_keys_are_not_disturbed() -> None:
    log = asyncio.run(hold_in_sequence(("one", "key"), ("other", "other key")))
    assert log == ["one begins", "other begins", "one ends", "other ends"]


def test_a_task_that_is_cancelled_from_elsewhere_stays_cancelled() -> None:
    async def scenario() -> None:
        begun = asyncio.Event()
        task = asyncio.create_task(hold(ArchiveLocks(), "key", [], "one", begun, asyncio.Event()))
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
            release.wait(PATIENCE_S)
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
