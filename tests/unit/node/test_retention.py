"""What is kept no longer."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from node.config import Retention
from node.counters import Counters
from node.limits import Holder, Limits
from node.permissions.registry import Registry
from node.retention import DAY_S, END_OF_TIME_S, Deletion, Retainer, plan_deletions
from node.storage import Entry, PartTotals, ResendLast, Storage
from node.streams import StreamPart
from tests.support.node_samples import ALICE, STREAM_ID, a_stream

PART = StreamPart(STREAM_ID, 0)
NOW_S = 1_700_000_000


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    storage = Storage(tmp_path)
    yield storage
    storage.close()


def part(number: int, stream_id: str | None, stored_since_s: int | None) -> PartTotals:
    return PartTotals(number, stream_id, 0, 1, 100, 0, 0, stored_since_s)


def test_each_stream_keeps_its_own_days_and_a_deleted_one_none() -> None:
    totals = [
        part(1, "short", NOW_S - 2 * DAY_S),
        part(2, "long", NOW_S - 2 * DAY_S),
        part(3, None, NOW_S),
        part(4, "short", NOW_S),
        part(5, "short", None),
    ]
    plan = plan_deletions(totals, {"short": 1, "long": 10}.__getitem__, NOW_S)

    assert plan == [Deletion(1, NOW_S - DAY_S), Deletion(3, END_OF_TIME_S)]


def store(storage: Storage, *ages_days: int, body: str = "x") -> None:
    """Messages of all ages, the oldest first, each telling a time that has nothing to do with its age."""
    for age in ages_days:
        entry = Entry(PART, 10_000 - age, 0, ALICE.address, "c", f"{age}{body}")
        asyncio.run(storage.append([entry], NOW_S - age * DAY_S))


def retain(storage: Storage, retention: Retention, **settings: object) -> list[str]:
    registry = Registry(storage, Limits())

    async def delete_and_read() -> list[str]:
        await registry.declare([(a_stream(**settings), [])])
        await Retainer(storage, registry, retention, Counters(), lambda: NOW_S * 1000).delete_what_is_due()
        return [body async for page in storage.resend(PART, ResendLast(count=10_000)) for body in page]

    return asyncio.run(delete_and_read())


def test_messages_beyond_the_nodes_age_are_deleted(storage: Storage) -> None:
    store(storage, 3, 2, 1)

    assert retain(storage, Retention(max_days=2)) == ["2x", "1x"]


def test_a_streams_own_age_counts_instead(storage: Storage) -> None:
    store(storage, 3, 2, 1)

    assert retain(storage, Retention(max_days=1), storage_days=3) == ["3x", "2x", "1x"]
    assert retain(storage, Retention(max_days=9), storage_days=1) == ["1x"]


def test_beyond_the_size_the_oldest_go_first(storage: Storage) -> None:
    batch = [Entry(PART, n, 0, ALICE.address, "c", f"{n}" + "x" * 1000) for n in range(4000)]
    asyncio.run(storage.append(batch, NOW_S))
    left = retain(storage, Retention(max_megabytes=2))

    assert 500 < len(left) < 2500
    assert left[-1].startswith("3999x")
    assert asyncio.run(storage.used_bytes()) <= 2_000_000


def test_messages_of_a_deleted_stream_are_deleted(storage: Storage) -> None:
    store(storage, 1)
    asyncio.run(storage.delete_stream(STREAM_ID))
    retain(storage, Retention())

    assert asyncio.run(storage.totals()) == []


def test_a_flood_pushes_out_no_messages_but_its_own(storage: Storage) -> None:
    asyncio.run(storage.append([Entry(PART, 1, 0, ALICE.address, "c", "honest", Holder(ALICE.address, "a"))], NOW_S))
    flood = [Entry(PART, n, 0, "", f"{n}", "x" * 1000, Holder("", "b")) for n in range(2, 4000)]
    asyncio.run(storage.append(flood, NOW_S))
    left = retain(storage, Retention(max_megabytes=2))

    assert left[0] == "honest"
    assert asyncio.run(storage.used_bytes()) <= 2_000_000


def test_each_owner_and_each_address_may_have_so_many_megabytes(storage: Storage) -> None:
    for owner, origin in (("o", "1"), ("o", "2"), ("p", "2"), ("q", "2"), ("r", "3")):
        holder = Holder(owner, origin)
        batch = [Entry(PART, n, 0, owner, origin, owner * 9_936, holder) for n in range(90)]
        asyncio.run(storage.append(batch, NOW_S))
    left = retain(storage, Retention(max_megabytes_per_owner=1, max_megabytes_per_address=2))
    by_owner = Counter(body[0] for body in left)

    assert by_owner["o"] <= 100
    assert by_owner["r"] == 90
    assert sum(by_owner[owner] for owner in "opq") <= 200 + 90


def test_much_that_is_stored_wakes_the_retention(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    counters = Counters()
    retainer = Retainer(storage, Registry(storage, Limits()), Retention(max_megabytes=20), counters, lambda: 0)
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        counters.stored_bytes += 400_000

    monkeypatch.setattr("node.retention.asyncio.sleep", sleep)
    asyncio.run(retainer._wait())

    assert len(slept) == 3
