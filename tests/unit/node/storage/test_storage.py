"""Messages, streams and grants on a real disk."""

import asyncio
import sqlite3
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from node.errors import Refused, StorageError
from node.limits import Holder, Quota, QuotaLimits
from node.storage import (
    DATABASE_NAME,
    Entry,
    ResendLast,
    ResendQuery,
    ResendRange,
    Storage,
    StoredStream,
    reading,
)
from node.storage import queries as queries_module
from node.storage.arrival_queries import ArrivalQuery, StoredText
from node.storage.messages import ROWS_AT_ONCE
from node.streams import PUBLIC, Grant, Operation, StreamPart
from protocol.streamr.ids import MessageRef
from tests.support.node_samples import ALICE, BOB, STREAM_ID, a_stream

PART = StreamPart(STREAM_ID, 0)
NOW_S = 1_700_000_000


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    storage = Storage(tmp_path)
    yield storage
    storage.close()


def entry(timestamp: int, sequence: int = 0, publisher: str = ALICE.address, chain: str = "c", body: str = "") -> Entry:
    return Entry(PART, timestamp, sequence, publisher, chain, body or f"{timestamp}.{sequence}")


def append(storage: Storage, *entries: Entry) -> list[bool | Refused]:
    """For each entry, whether it is new, or why it was refused."""
    outcomes = asyncio.run(storage.append(entries, NOW_S))
    return [outcome if isinstance(outcome, Refused) else bool(outcome) for outcome in outcomes]


def resend(storage: Storage, query: ResendQuery, part: StreamPart = PART) -> list[str]:
    async def collect() -> list[str]:
        return [body async for page in storage.resend(part, query) for body in page]

    return asyncio.run(collect())


def test_what_was_stored_is_there_after_reopening(tmp_path: Path) -> None:
    first = Storage(tmp_path)
    append(first, entry(1), entry(2))
    first.close()
    second = Storage(tmp_path)

    assert resend(second, ResendLast(count=10)) == ["1.0", "2.0"]
    second.close()


def test_the_same_message_is_stored_once_and_reported_as_duplicate(storage: Storage) -> None:
    assert append(storage, entry(1), entry(1), entry(2)) == [True, False, True]
    assert append(storage, entry(2), entry(2, chain="other")) == [False, True]
    assert resend(storage, ResendLast(count=10)) == ["1.0", "2.0", "2.0"]


@pytest.mark.parametrize("old", [0, ROWS_AT_ONCE - 1, ROWS_AT_ONCE, 2 * ROWS_AT_ONCE, None])
def test_of_a_large_batch_too_only_what_is_new_is_stored(storage: Storage, old: int | None) -> None:
    batch = [entry(n) for n in range(2 * ROWS_AT_ONCE + 1)]
    if old is not None:
        append(storage, entry(old))

    assert append(storage, *batch) == [n != old for n in range(len(batch))]
    assert resend(storage, ResendLast(count=1000)) == [f"{n}.0" for n in range(len(batch))]
    assert asyncio.run(storage.totals())[0].messages == len(batch)


def test_what_comes_twice_in_a_large_batch_is_stored_once(storage: Storage) -> None:
    batch = [entry(n // 2) for n in range(4 * ROWS_AT_ONCE)]

    assert append(storage, *batch) == [True, False] * (2 * ROWS_AT_ONCE)
    assert asyncio.run(storage.totals())[0].messages == 2 * ROWS_AT_ONCE


def test_messages_come_back_in_order_however_they_came(storage: Storage) -> None:
    append(storage, entry(3), entry(1, 2), entry(1, 1), entry(2))

    assert resend(storage, ResendLast(count=10)) == ["1.1", "1.2", "2.0", "3.0"]


@pytest.mark.parametrize(
    ("count", "expected"), [(0, []), (1, ["3.0"]), (2, ["2.0", "3.0"]), (2**70, ["1.0", "2.0", "3.0"])]
)
def test_the_last_so_many(storage: Storage, count: int, expected: list[str]) -> None:
    append(storage, entry(1), entry(2), entry(3))

    assert resend(storage, ResendLast(count=count)) == expected


def test_from_a_reference_on_it_included(storage: Storage) -> None:
    append(storage, entry(1), entry(2, 0), entry(2, 1), entry(3))

    assert resend(storage, ResendRange(start=MessageRef(2, 1))) == ["2.1", "3.0"]
    assert resend(storage, ResendRange(start=MessageRef(0, 0))) == ["1.0", "2.0", "2.1", "3.0"]
    assert resend(storage, ResendRange(start=MessageRef(2**63, 2**63))) == []


def test_a_range_includes_both_ends(storage: Storage) -> None:
    append(storage, entry(1), entry(2, 0), entry(2, 1), entry(3), entry(4))

    assert resend(storage, ResendRange(start=MessageRef(2, 1), end=MessageRef(3, 0))) == ["2.1", "3.0"]
    assert resend(storage, ResendRange(start=MessageRef(2, 0), end=MessageRef(2, 0))) == ["2.0"]
    assert resend(storage, ResendRange(start=MessageRef(3, 0), end=MessageRef(2**64 - 1, 0))) == ["3.0", "4.0"]


def test_resends_of_one_publisher_or_one_chain(storage: Storage) -> None:
    append(storage, entry(1), entry(2, publisher=BOB.address), entry(3, chain="d"), entry(4))
    everything = ResendRange(start=MessageRef(0, 0), end=MessageRef(9, 9))
    mixed_case = "0x" + ALICE.address[2:].upper()

    assert resend(storage, replace(everything, publisher=mixed_case)) == ["1.0", "3.0", "4.0"]
    assert resend(storage, replace(everything, publisher=ALICE.address, chain="d")) == ["3.0"]
    assert resend(storage, ResendRange(start=MessageRef(2, 0), publisher=BOB.address)) == ["2.0"]
    assert resend(storage, ResendRange(start=MessageRef(0, 0), publisher="unknown")) == []


def test_partitions_and_streams_are_apart(storage: Storage) -> None:
    append(storage, entry(1), entry(1)._replace(part=StreamPart(STREAM_ID, 1), body="elsewhere"))

    assert resend(storage, ResendLast(count=9), StreamPart(STREAM_ID, 1)) == ["elsewhere"]
    assert resend(storage, ResendLast(count=9), StreamPart("unknown", 0)) == []
    assert resend(storage, ResendLast(count=9), StreamPart(STREAM_ID, 2**64 - 1)) == []


def test_pages_are_bounded_and_nothing_is_lost_between_them(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries_module, "PAGE_CHARACTERS", 30)
    monkeypatch.setattr(queries_module, "PAGE_MESSAGES", 4)
    append(
        storage, *(entry(time, sequence, chain=chain) for time in range(9) for sequence in range(2) for chain in "ab")
    )

    async def pages() -> list[list[str]]:
        return [page async for page in storage.resend(PART, ResendRange(start=MessageRef(0, 0)))]

    found = asyncio.run(pages())
    assert max(map(len, found)) == 4
    assert [body for page in found for body in page] == [
        f"{time}.{sequence}" for time in range(9) for sequence in range(2) for _ in "ab"
    ]


def test_a_resend_ends_where_the_stream_ended_when_it_began(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries_module, "PAGE_MESSAGES", 1)
    append(storage, entry(1), entry(2))

    async def resend_while_publishing() -> list[str]:
        bodies = []
        async for page in storage.resend(PART, ResendRange(start=MessageRef(0, 0))):
            bodies += page
            await storage.append([entry(10 + len(bodies))], NOW_S)
        return bodies

    assert asyncio.run(resend_while_publishing()) == ["1.0", "2.0"]


def test_totals_follow_what_is_stored_and_deleted(storage: Storage) -> None:
    append(storage, entry(1, body="äö"), entry(2, body="xyz"), entry(3))
    (before,) = asyncio.run(storage.totals())
    deleted = asyncio.run(delete_of_heaviest(storage, 2, max_bytes=10**9))
    (after,) = asyncio.run(storage.totals())

    assert before[3:] == (3, 10, 1, 3, NOW_S)
    assert deleted == 2
    assert after[3:] == (1, 3, 3, 3, NOW_S)


def test_age_counts_from_arrival_and_only_the_old_are_deleted(storage: Storage) -> None:
    asyncio.run(storage.append([entry(9), entry(8)], NOW_S))
    asyncio.run(storage.append([entry(1)], NOW_S + 1))
    (part,) = asyncio.run(storage.totals())

    assert asyncio.run(storage.write(storage.messages.delete_old, part.number, NOW_S, 10)) == 0
    assert asyncio.run(storage.write(storage.messages.delete_old, part.number, NOW_S + 1, 1)) == 1
    assert asyncio.run(storage.write(storage.messages.delete_old, part.number, NOW_S + 1, 10)) == 1
    assert resend(storage, ResendLast(count=9)) == ["1.0"]


def test_a_clock_that_goes_back_does_not_make_new_messages_old(tmp_path: Path) -> None:
    first = Storage(tmp_path)
    asyncio.run(first.append([entry(1)], NOW_S))
    first.close()
    second = Storage(tmp_path)
    asyncio.run(second.append([entry(2)], 5))
    asyncio.run(second.write(second.messages.delete_of_heaviest, 1, max_bytes=10**9))

    assert asyncio.run(second.totals())[0].stored_since_s == NOW_S
    second.close()


def test_a_stream_made_anew_does_not_have_the_messages_of_the_deleted_one(storage: Storage) -> None:
    append(storage, entry(1))
    asyncio.run(storage.delete_stream(STREAM_ID))

    assert resend(storage, ResendLast(count=9)) == []
    assert append(storage, entry(1)) == [True]
    assert resend(storage, ResendLast(count=9)) == ["1.0"]


def test_streams_and_grants_are_there_after_reopening(tmp_path: Path) -> None:
    first = Storage(tmp_path)
    stream = a_stream(partitions=3, require_signed_data=True, storage_days=7, name="boiler")
    grants = [Grant(STREAM_ID, ALICE.address, Operation.SHARE), Grant(STREAM_ID, PUBLIC, Operation.GET)]
    numbers = asyncio.run(first.write(first.tables.create_stream, stream, grants, Holder(ALICE.address, "10.0.0.1")))
    same = asyncio.run(first.write(first.tables.put_grant, grants[0]))
    first.close()
    second = Storage(tmp_path)

    assert same == numbers[0]
    assert second.load() == (
        [StoredStream(stream, Holder(ALICE.address, "10.0.0.1"), is_declared=False)],
        list(zip(numbers, grants, strict=True)),
    )
    asyncio.run(second.write(second.tables.delete_grant, numbers[0]))
    assert second.load()[1] == [(numbers[1], grants[1])]
    second.close()


def test_a_batch_is_stored_whole_or_not_at_all(storage: Storage) -> None:
    broken = entry(2)._replace(timestamp=2**63)
    with pytest.raises(OverflowError):
        append(storage, entry(1), broken)

    assert resend(storage, ResendLast(count=9)) == []
    assert append(storage, entry(1)) == [True]
    assert resend(storage, ResendLast(count=9)) == ["1.0"]


def test_a_full_disk_is_a_storage_error_and_leaves_what_was_there(storage: Storage) -> None:
    append(storage, entry(1))
    pages = storage._writer.execute("PRAGMA page_count").fetchone()[0]
    storage._writer.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(StorageError, match="full"):
        append(storage, *(entry(10 + n, body="x" * 1000) for n in range(100)))
    storage._writer.execute("PRAGMA max_page_count = 1000000")

    assert resend(storage, ResendLast(count=9)) == ["1.0"]
    assert append(storage, entry(10)) == [True]


def test_a_database_of_another_version_is_refused(tmp_path: Path) -> None:
    Storage(tmp_path).close()
    connection = sqlite3.connect(tmp_path / DATABASE_NAME)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StorageError, match="version 99"):
        Storage(tmp_path)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / DATABASE_NAME).write_bytes(b"no database " * 1000)
    with pytest.raises(StorageError, match="cannot be opened"):
        Storage(tmp_path)
    with pytest.raises(StorageError, match="cannot be read"), reading(tmp_path / "nowhere"):
        pass


def test_a_damaged_database_is_a_storage_error(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    append(storage, *(entry(n, body="x" * 1000) for n in range(100)))
    storage.close()
    path = tmp_path / DATABASE_NAME
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)

    with pytest.raises(StorageError), reading(tmp_path) as connection:
        connection.execute("SELECT * FROM messages").fetchall()
    with pytest.raises(StorageError):
        Storage(tmp_path)


def test_one_node_uses_a_directory_at_a_time(tmp_path: Path) -> None:
    first = Storage(tmp_path)
    with pytest.raises(StorageError, match="another node uses this directory"):
        Storage(tmp_path)
    first.close()
    Storage(tmp_path).close()


# --- usage by user ---


def delete_of_heaviest(storage: Storage, limit: int, **options: Any) -> Coroutine[Any, Any, int]:
    return storage.write(storage.messages.delete_of_heaviest, limit, **options)


MALLORY, HONEST = Holder("0xmallory", "10.9.9.9"), Holder(ALICE.address, "10.0.0.1")


def test_a_chain_beyond_the_quota_is_refused_and_the_rest_of_the_batch_stored(tmp_path: Path) -> None:
    storage = Storage(tmp_path, Quota("chains", QuotaLimits(total=3, per_owner=2, per_address=3)))
    mine = [entry(n, chain=f"c{n}")._replace(holder=MALLORY) for n in range(4)]
    outcomes = append(storage, mine[0], mine[1], mine[2], mine[0], entry(9, chain="honest")._replace(holder=HONEST))

    assert [outcome for outcome in outcomes if isinstance(outcome, bool)] == [True, True, False, True]
    assert isinstance(outcomes[2], Refused)
    assert "limits.max_chains_per_owner" in str(outcomes[2])
    assert append(storage, mine[1]._replace(timestamp=50)) == [True]  # what is there may go on
    storage.close()

    again = Storage(tmp_path, Quota("chains", QuotaLimits(total=3, per_owner=2, per_address=3)))
    assert isinstance(append(again, mine[3])[0], Refused)
    again.close()


def test_a_chain_is_gone_with_its_last_message_and_another_may_begin(tmp_path: Path) -> None:
    storage = Storage(tmp_path, Quota("chains", QuotaLimits(total=1, per_owner=1, per_address=1)))
    append(storage, entry(1, chain="x" * 10_000))
    assert asyncio.run(delete_of_heaviest(storage, 10, max_bytes=10**9)) == 1

    with reading(tmp_path) as connection:
        assert connection.execute("SELECT count(*) FROM chains").fetchone() == (0,)
    assert storage.chain_quota.total == 0
    assert append(storage, entry(1, chain="next")) == [True]
    storage.close()


def test_a_batch_that_fails_charges_no_user(storage: Storage) -> None:
    with pytest.raises((StorageError, OverflowError)):
        append(storage, entry(1, chain="a"), entry(2**63, chain="b"))

    assert storage.chain_quota.total == 0


def test_the_heaviest_gives_way_first_however_many_names_it_has(storage: Storage) -> None:
    append(storage, *(entry(n, chain="honest", body="h" * 300)._replace(holder=HONEST) for n in range(10)))
    for name in range(20):
        sybil = Holder(f"0x{name}", MALLORY.origin)
        part = StreamPart(f"0x{name}/s", 0)
        append(storage, *(entry(n, chain="m", body="m" * 200)._replace(part=part, holder=sybil) for n in range(2)))
    while sum(part.bytes for part in asyncio.run(storage.totals())) > 7000:
        assert asyncio.run(delete_of_heaviest(storage, 1, max_bytes=10**9))

    assert len(resend(storage, ResendLast(count=99))) == 10


def test_of_one_owner_the_oldest_messages_go_first(storage: Storage) -> None:
    append(storage, *(entry(n, body=f"{n}" * 100)._replace(holder=HONEST) for n in range(5)))
    append(storage, entry(9, chain="other", body="o")._replace(holder=Holder("0xother", HONEST.origin)))
    asyncio.run(delete_of_heaviest(storage, 3, max_bytes=10**9))

    assert [body[0] for body in resend(storage, ResendLast(count=99))] == ["3", "4", "o"]


def test_what_one_owner_has_beyond_so_many_bytes_can_be_deleted(storage: Storage) -> None:
    append(storage, *(entry(n, body="x" * 936)._replace(holder=HONEST) for n in range(10)))
    append(storage, *(entry(n, chain="m", body="x" * 936)._replace(holder=MALLORY) for n in range(4)))
    while asyncio.run(
        storage.write(storage.messages.delete_of_heaviest, 1, max_bytes=10**9, by="owner", beyond_bytes=5_000)
    ):
        pass

    with reading(storage.directory) as connection:
        counts = connection.execute("SELECT owner, messages FROM chains ORDER BY owner").fetchall()
    assert counts == [(ALICE.address, 5), ("0xmallory", 4)]


def test_no_more_is_deleted_than_must_be(storage: Storage) -> None:
    append(storage, *(entry(n, body="x" * 936)._replace(holder=HONEST) for n in range(10)))

    assert asyncio.run(delete_of_heaviest(storage, 1_000, max_bytes=2_500)) == 3
    assert asyncio.run(delete_of_heaviest(storage, 1_000, max_bytes=10**9, beyond_bytes=5_000)) == 2
    assert asyncio.run(delete_of_heaviest(storage, 1_000, max_bytes=10**9, beyond_bytes=5_000)) == 0


# --- the order of arrival, for legacy clients ---


def arrivals(storage: Storage, **query: int) -> list[str]:
    async def collect() -> list[StoredText]:
        return [text async for page in storage.resend_by_arrival(PART, ArrivalQuery(**query)) for text in page]

    found = asyncio.run(collect())
    assert [text.offset for text in found] == sorted({text.offset for text in found})
    return [text.text for text in found]


def test_offsets_rise_in_the_order_of_arrival_whatever_the_messages_times(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.storage.arrival_queries.PAGE_MESSAGES", 3)
    times = [5, 5, 5, 9, 2, 7, 7, 1]
    chains = iter("abcdefgh")
    numbers = [
        number
        for time in times
        for number in asyncio.run(storage.append([entry(time, chain=next(chains))], NOW_S))
        if isinstance(number, int)
    ]
    bodies = [f"{time}.0" for time in times]

    assert numbers == sorted(set(numbers))
    assert arrivals(storage) == bodies
    assert arrivals(storage, last=3) == bodies[-3:]
    assert arrivals(storage, last=99) == bodies
    assert arrivals(storage, last=0) == []
    assert arrivals(storage, start=numbers[2]) == bodies[2:]
    assert arrivals(storage, start=numbers[2], end=numbers[4]) == bodies[2:5]
    assert arrivals(storage, start=numbers[-1] + 1) == []
    assert arrivals(storage, end=numbers[0] - 1) == []
    assert arrivals(storage, since_ms=7) == ["9.0", "7.0", "7.0"]
    assert arrivals(storage, start=2**70, end=2**71) == arrivals(storage, since_ms=2**70) == []


def test_offsets_of_a_full_batch_are_those_it_is_read_back_with(storage: Storage) -> None:
    batch = [entry(n, chain=f"{n % 3}") for n in range(ROWS_AT_ONCE * 2 + 5)]
    numbers = asyncio.run(storage.append(batch, NOW_S))

    async def collect() -> list[StoredText]:
        return [text async for page in storage.resend_by_arrival(PART, ArrivalQuery()) for text in page]

    assert asyncio.run(collect()) == [
        StoredText(number, each.body) for number, each in zip(numbers, batch, strict=True) if isinstance(number, int)
    ]


def test_an_offset_is_never_given_twice_even_if_everything_was_deleted(storage: Storage) -> None:
    (first,) = asyncio.run(storage.append([entry(1)], NOW_S))
    asyncio.run(delete_of_heaviest(storage, 10, max_bytes=10**9))
    (second,) = asyncio.run(storage.append([entry(2)], NOW_S))

    assert isinstance(first, int)
    assert isinstance(second, int)
    assert second > first


def test_a_resend_by_arrival_of_nothing_is_empty(storage: Storage) -> None:
    assert arrivals(storage) == arrivals(storage, last=3) == []
