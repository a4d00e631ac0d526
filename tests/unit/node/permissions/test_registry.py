"""Streams and permissions, in memory and on disk."""

import asyncio
import sqlite3
from collections.abc import Coroutine, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from node.errors import ErrorCode, Refused, StorageError
from node.limits import Holder, Limits
from node.permissions.registry import Registry
from node.storage import DATABASE_NAME, Entry, Storage
from node.streams import OPERATOR, PUBLIC, Grant, Operation, Stream, StreamPart
from tests.support.node_samples import ALICE, BOB, STREAM_ID, a_stream

LIMITS = Limits(max_streams=2)
ALICES = Holder(ALICE.address, "10.0.0.1")
BOBS = Holder(BOB.address, "10.0.0.2")


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    storage = Storage(tmp_path)
    yield storage
    storage.close()


@pytest.fixture
def registry(storage: Storage) -> Registry:
    registry = Registry(storage, LIMITS)
    asyncio.run(registry.create(a_stream(), ALICES))
    return registry


def test_the_owner_may_do_everything_and_others_nothing(registry: Registry) -> None:
    assert all(registry.may(ALICE.address, STREAM_ID, operation) for operation in Operation)
    assert not any(
        registry.may(user, STREAM_ID, operation) for user in (BOB.address, PUBLIC) for operation in Operation
    )


def test_a_grant_to_the_public_is_everybodys(registry: Registry) -> None:
    asyncio.run(registry.grant(Grant(STREAM_ID, PUBLIC, Operation.SUBSCRIBE), by=ALICE.address))

    assert registry.may(BOB.address, STREAM_ID, Operation.SUBSCRIBE)
    assert registry.users_with(STREAM_ID, Operation.SUBSCRIBE) == [ALICE.address]


def test_what_was_granted_may_be_revoked_once(registry: Registry) -> None:
    number = asyncio.run(registry.grant(Grant(STREAM_ID, BOB.address, Operation.PUBLISH), by=ALICE.address))

    assert asyncio.run(registry.revoke(STREAM_ID, number, by=ALICE.address))
    assert not asyncio.run(registry.revoke(STREAM_ID, number, by=ALICE.address))
    assert not registry.may(BOB.address, STREAM_ID, Operation.PUBLISH)


def test_all_of_it_is_there_after_a_restart(registry: Registry, storage: Storage) -> None:
    asyncio.run(registry.grant(Grant(STREAM_ID, BOB.address, Operation.PUBLISH), by=ALICE.address))
    asyncio.run(registry.change(a_stream(partitions=5), by=ALICE.address))
    again = Registry(storage, LIMITS)

    assert again.get(STREAM_ID).partitions == 5
    assert again.grants_on(STREAM_ID) == registry.grants_on(STREAM_ID)


def test_a_deleted_stream_is_gone_with_its_grants(registry: Registry, storage: Storage) -> None:
    asyncio.run(registry.delete(STREAM_ID, by=ALICE.address))

    for each in (registry, Registry(storage, LIMITS)):
        with pytest.raises(Refused) as refused:
            each.require(ALICE.address, STREAM_ID, Operation.GET)
        assert refused.value.code is ErrorCode.NOT_FOUND
        assert each.grants_on(STREAM_ID) == []


def test_streams_are_unique_and_not_too_many(registry: Registry) -> None:
    for taken in (STREAM_ID, BOB.address):
        with pytest.raises(Refused, match="already exists"):
            asyncio.run(registry.create(a_stream(id=taken), ALICES))
    asyncio.run(registry.create(a_stream(id="second"), ALICES))
    with pytest.raises(Refused, match=r"has 2 streams on this node and may have 2 \(limits.max_streams\)"):
        asyncio.run(registry.create(a_stream(id="third"), ALICES))


def test_a_stream_that_could_not_be_stored_does_not_exist(
    registry: Registry, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> list[int]:
        raise StorageError("disk full")

    monkeypatch.setattr(storage, "write", fail)
    with pytest.raises(StorageError):
        asyncio.run(registry.create(a_stream(id="second"), ALICES))
    assert registry.find("second") is None


# --- one change at a time ---


async def race(*changes: Coroutine[Any, Any, object]) -> list[object]:
    return await asyncio.gather(*changes, return_exceptions=True)


def test_a_grant_that_races_with_the_deletion_does_not_rule_the_next_stream_of_that_name(
    registry: Registry, storage: Storage
) -> None:
    theft = Grant(STREAM_ID, ALICE.address, Operation.PUBLISH)

    async def steal() -> None:
        await race(registry.delete(STREAM_ID, by=ALICE.address), registry.grant(theft, by=ALICE.address))
        await registry.create(a_stream(), BOBS)

    asyncio.run(steal())

    for each in (registry, Registry(storage, LIMITS)):
        assert not each.may(ALICE.address, STREAM_ID, Operation.PUBLISH)
        assert each.users_with(STREAM_ID, Operation.PUBLISH) == [BOB.address]


def test_a_change_that_waited_while_the_stream_got_another_owner_is_refused(registry: Registry) -> None:
    grant = Grant(STREAM_ID, ALICE.address, Operation.PUBLISH)

    async def change_hands() -> list[object]:
        return await race(
            registry.delete(STREAM_ID, by=ALICE.address),
            registry.create(a_stream(), BOBS),
            registry.grant(grant, by=ALICE.address),
            registry.change(a_stream(partitions=7), by=ALICE.address),
            registry.revoke(STREAM_ID, 7, by=ALICE.address),
            registry.delete(STREAM_ID, by=ALICE.address),
        )

    outcomes = asyncio.run(change_hands())

    assert outcomes[:2] == [None, None]
    assert [type(outcome) for outcome in outcomes[2:]] == [Refused] * 4
    assert registry.get(STREAM_ID).partitions == 1
    assert registry.may(BOB.address, STREAM_ID, Operation.PUBLISH)


def test_nothing_can_be_granted_on_a_stream_that_does_not_exist(registry: Registry, storage: Storage) -> None:
    grant = Grant("nowhere", ALICE.address, Operation.PUBLISH)
    with pytest.raises(Refused, match="not found"):
        asyncio.run(registry.grant(grant, by=OPERATOR))

    assert asyncio.run(storage.write(storage.tables.put_grant, grant)) is None


def test_permissions_without_a_stream_are_removed_at_the_start(
    registry: Registry, storage: Storage, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / DATABASE_NAME, isolation_level=None)) as database:
        database.execute("INSERT INTO grants (stream_id, user, operation) VALUES ('next', 'thief', 'stream_share')")
    again = Registry(storage, LIMITS)
    asyncio.run(again.create(a_stream(id="next"), BOBS))

    assert not again.may("thief", "next", Operation.SHARE)
    assert [grant.stream_id for _, grant in storage.load()[1] if grant.user == "thief"] == []


# --- declared streams ---


def declared(*users: str, stream_id: str = "plant") -> tuple[Stream, list[Grant]]:
    return Stream(id=stream_id), [Grant(stream_id, user, Operation.PUBLISH) for user in users]


def test_a_declared_stream_has_exactly_the_declared_grants_after_every_start(storage: Storage) -> None:
    registry = Registry(storage, LIMITS)
    asyncio.run(registry.declare([declared(ALICE.address, BOB.address, PUBLIC)]))
    asyncio.run(registry.declare([declared(BOB.address)]))

    for each in (registry, Registry(storage, LIMITS)):
        assert [grant.user for _, grant in each.grants_on("plant")] == [BOB.address]
        assert not each.may(ALICE.address, "plant", Operation.PUBLISH)


def test_a_stream_that_is_no_longer_declared_loses_every_permission_and_keeps_its_messages(storage: Storage) -> None:
    registry = Registry(storage, LIMITS)
    asyncio.run(registry.declare([declared(ALICE.address), declared(ALICE.address, stream_id="unused")]))
    entry = Entry(StreamPart("plant", 0), 1, 0, ALICE.address, "c", "body")
    asyncio.run(storage.append([entry], 1))
    asyncio.run(registry.declare([]))

    assert registry.find("plant") is not None
    assert registry.grants_on("plant") == []
    assert registry.find("unused") is None
    assert asyncio.run(storage.totals())[0].messages == 1


def test_what_is_declared_is_changed_in_the_file_alone(storage: Storage) -> None:
    registry = Registry(storage, LIMITS)
    owned = [Grant("plant", ALICE.address, operation) for operation in Operation]
    asyncio.run(registry.declare([(Stream(id="plant"), owned)]))
    number = registry.grants_on("plant")[0][0]
    grant = Grant("plant", BOB.address, Operation.PUBLISH)

    for change in (
        registry.grant(grant, by=ALICE.address),
        registry.revoke("plant", number, by=ALICE.address),
        registry.change(Stream(id="plant", partitions=3), by=ALICE.address),
        registry.delete("plant", by=OPERATOR),
    ):
        with pytest.raises(Refused, match="declared in the configuration of the node"):
            asyncio.run(change)


# --- quotas ---


def test_one_identity_and_one_address_may_make_so_many_streams(storage: Storage) -> None:
    limits = Limits(max_streams=10, max_streams_per_owner=2, max_streams_per_address=3)
    registry = Registry(storage, limits)

    def create(name: str, holder: Holder) -> None:
        asyncio.run(registry.create(a_stream(id=name), holder))

    create("one", ALICES)
    create("two", ALICES)
    with pytest.raises(Refused, match=r"may have 2 \(limits.max_streams_per_owner\)"):
        create("three", ALICES)
    create("three", Holder("0xthrowaway", ALICES.origin))
    with pytest.raises(Refused, match=r"10.0.0.1 has 3 streams .*max_streams_per_address"):
        create("four", Holder("0xnext", ALICES.origin))
    create("four", BOBS)
    asyncio.run(registry.delete("one", by=ALICE.address))
    create("five", ALICES)

    with pytest.raises(Refused, match="max_streams_per_owner"):
        asyncio.run(Registry(storage, limits).create(a_stream(id="six"), ALICES))


@pytest.mark.parametrize("setting", ["max_grants_per_stream", "max_grants_per_owner", "max_grants_per_address"])
def test_permissions_are_limited_per_stream_owner_and_address(storage: Storage, setting: str) -> None:
    registry = Registry(storage, Limits(**{setting: 7}))
    asyncio.run(registry.create(a_stream(), ALICES))

    def grant(operation: Operation) -> int:
        return asyncio.run(registry.grant(Grant(STREAM_ID, BOB.address, operation), by=ALICE.address))

    number = grant(Operation.GET)
    assert grant(Operation.GET) == number
    with pytest.raises(Refused, match=f"limits.{setting}"):
        grant(Operation.PUBLISH)
    assert asyncio.run(registry.revoke(STREAM_ID, number, by=ALICE.address))
    grant(Operation.PUBLISH)
