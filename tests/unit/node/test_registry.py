"""Streams and permissions, in memory and on disk."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from node.errors import ErrorCode, Refused, StorageError
from node.registry import Registry
from node.storage import Storage
from node.streams import ANYBODY, Grant, Operation
from tests.unit.node.samples import ALICE, BOB, STREAM_ID, a_stream


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    storage = Storage(tmp_path)
    yield storage
    storage.close()


@pytest.fixture
def registry(storage: Storage) -> Registry:
    registry = Registry(storage, max_streams=2)
    asyncio.run(registry.create(a_stream(), ALICE.address))
    return registry


def test_the_owner_may_do_everything_and_others_nothing(registry: Registry) -> None:
    assert all(registry.may(ALICE.address, STREAM_ID, operation) for operation in Operation)
    assert not any(
        registry.may(user, STREAM_ID, operation) for user in (BOB.address, ANYBODY) for operation in Operation
    )


def test_a_grant_to_the_public_is_everybodys(registry: Registry) -> None:
    asyncio.run(registry.grant(Grant(STREAM_ID, ANYBODY, Operation.SUBSCRIBE)))

    assert registry.may(BOB.address, STREAM_ID, Operation.SUBSCRIBE)
    assert registry.users_with(STREAM_ID, Operation.SUBSCRIBE) == [ALICE.address]


def test_what_was_granted_may_be_revoked_once(registry: Registry) -> None:
    number = asyncio.run(registry.grant(Grant(STREAM_ID, BOB.address, Operation.PUBLISH)))

    assert asyncio.run(registry.revoke(STREAM_ID, number))
    assert not asyncio.run(registry.revoke(STREAM_ID, number))
    assert not registry.may(BOB.address, STREAM_ID, Operation.PUBLISH)


def test_all_of_it_is_there_after_a_restart(registry: Registry, storage: Storage) -> None:
    asyncio.run(registry.grant(Grant(STREAM_ID, BOB.address, Operation.PUBLISH)))
    asyncio.run(registry.change(a_stream(partitions=5)))
    again = Registry(storage, max_streams=2)

    assert again.get(STREAM_ID).partitions == 5
    assert again.grants_on(STREAM_ID) == registry.grants_on(STREAM_ID)


def test_a_deleted_stream_is_gone_with_its_grants(registry: Registry, storage: Storage) -> None:
    asyncio.run(registry.delete(STREAM_ID))

    for each in (registry, Registry(storage, max_streams=2)):
        with pytest.raises(Refused) as refused:
            each.require(ALICE.address, STREAM_ID, Operation.GET)
        assert refused.value.code is ErrorCode.NOT_FOUND
        assert each.grants_on(STREAM_ID) == []


def test_streams_are_unique_and_not_too_many(registry: Registry) -> None:
    for taken in (STREAM_ID, BOB.address):
        with pytest.raises(Refused, match="already exists"):
            asyncio.run(registry.create(a_stream(id=taken), ALICE.address))
    asyncio.run(registry.create(a_stream(id="second"), ALICE.address))
    with pytest.raises(Refused, match="has its 2 streams"):
        asyncio.run(registry.create(a_stream(id="third"), ALICE.address))


def test_a_stream_that_could_not_be_stored_does_not_exist(
    registry: Registry, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> list[int]:
        raise StorageError("disk full")

    monkeypatch.setattr(storage, "put_stream", fail)
    with pytest.raises(StorageError):
        asyncio.run(registry.create(a_stream(id="second"), ALICE.address))
    assert registry.find("second") is None
