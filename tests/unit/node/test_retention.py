"""What is kept no longer."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from node.config import Retention
from node.counters import Counters
from node.registry import Registry
from node.retention import DAY_MS, FOREVER_MS, Deletion, Retainer, plan_deletions
from node.storage import Entry, PartTotals, ResendLast, Storage
from node.streams import StreamPart
from tests.unit.node.samples import ALICE, NOW_MS, STREAM_ID, a_stream

PART = StreamPart(STREAM_ID, 0)


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    storage = Storage(tmp_path)
    yield storage
    storage.close()


def part(number: int, stream_id: str | None, oldest_ms: int | None) -> PartTotals:
    return PartTotals(number, stream_id, 0, 1, 100, oldest_ms, oldest_ms)


def test_each_stream_keeps_its_own_days_and_a_deleted_one_none() -> None:
    totals = [
        part(1, "short", NOW_MS - 2 * DAY_MS),
        part(2, "long", NOW_MS - 2 * DAY_MS),
        part(3, None, NOW_MS),
        part(4, "short", NOW_MS),
        part(5, "short", None),
    ]
    plan = plan_deletions(totals, {"short": 1, "long": 10}.get, NOW_MS)

    assert plan == [Deletion(1, NOW_MS - DAY_MS), Deletion(3, FOREVER_MS)]


def entries(*ages_days: int, body: str = "x") -> list[Entry]:
    return [Entry(PART, NOW_MS - age * DAY_MS, 0, ALICE.address, "c", f"{age}{body}") for age in ages_days]


def retain(storage: Storage, retention: Retention, **settings: object) -> list[str]:
    registry = Registry(storage, max_streams=10)
    counters = Counters()

    async def delete_and_read() -> list[str]:
        await registry.declare(a_stream(**settings), [])
        await Retainer(storage, registry, retention, counters, lambda: NOW_MS).delete_what_is_due()
        return [body async for page in storage.resend(PART, ResendLast(count=10_000)) for body in page]

    return asyncio.run(delete_and_read())


def test_messages_beyond_the_nodes_age_are_deleted(storage: Storage) -> None:
    asyncio.run(storage.append(entries(3, 2, 1)))

    assert retain(storage, Retention(max_days=2)) == ["2x", "1x"]


def test_a_streams_own_age_counts_instead(storage: Storage) -> None:
    asyncio.run(storage.append(entries(3, 2, 1)))

    assert retain(storage, Retention(max_days=1), storage_days=3) == ["3x", "2x", "1x"]
    assert retain(storage, Retention(max_days=9), storage_days=1) == ["1x"]


def test_beyond_the_size_the_oldest_go_first(storage: Storage) -> None:
    asyncio.run(storage.append(entries(*range(3000, 0, -1), body="x" * 1000)))
    left = retain(storage, Retention(max_days=9999, max_megabytes=2))

    assert 500 < len(left) < 2500
    assert left[-1].startswith("1x")
    assert asyncio.run(storage.used_bytes()) <= 2_000_000


def test_messages_of_a_deleted_stream_are_deleted(storage: Storage) -> None:
    asyncio.run(storage.append(entries(1)))
    asyncio.run(storage.delete_stream(STREAM_ID))
    retain(storage, Retention())

    assert asyncio.run(storage.totals()) == []
