"""Permissions that the operator gives and takes back while no node runs."""

import argparse
import asyncio
import json
from pathlib import Path

import pytest

from node.cli import add_arguments, run
from node.errors import ConfigError, Refused, StorageError
from node.limits import Holder, Limits
from node.permissions.registry import Registry
from node.storage import Storage
from node.streams import Grant, Operation, Stream
from tests.support.node_samples import ALICE, BOB, STREAM_ID, a_stream


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with a stream of Alice's and one that is declared."""
    storage = Storage(tmp_path)
    registry = Registry(storage, Limits())
    asyncio.run(registry.create(a_stream(), Holder(ALICE.address, "10.0.0.1")))
    asyncio.run(registry.declare([(Stream(id="declared"), [Grant("declared", BOB.address, Operation.GET)])]))
    storage.close()
    return tmp_path


def command(*words: str) -> int:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return run(parser.parse_args(words))


def permissions(data: Path, user: str) -> set[Operation]:
    storage = Storage(data)
    found = {grant.operation for _, grant in storage.load()[1] if (grant.stream_id, grant.user) == (STREAM_ID, user)}
    storage.close()
    return found


def test_subscribe_is_granted_together_with_get_and_revoked_again(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command("grant", STREAM_ID, BOB.address.upper().replace("X", "x"), "subscribe", "--data", str(data))
    assert permissions(data, BOB.address) == {Operation.SUBSCRIBE, Operation.GET}
    assert f"granted stream_subscribe on {STREAM_ID} to {BOB.address}\n" in capsys.readouterr().out

    command("grant", STREAM_ID, BOB.address, "subscribe", "--data", str(data), "--json")
    assert json.loads(capsys.readouterr().out) == []

    command("revoke", STREAM_ID, BOB.address, "--data", str(data), "--json")
    assert permissions(data, BOB.address) == set()
    assert {row["operation"] for row in json.loads(capsys.readouterr().out)} == {"stream_subscribe", "stream_get"}


def test_one_operation_of_the_public_can_be_revoked(data: Path) -> None:
    command("grant", STREAM_ID, "public", "publish", "subscribe", "--data", str(data))
    command("revoke", STREAM_ID, "public", "publish", "--data", str(data))

    assert permissions(data, "") == {Operation.SUBSCRIBE, Operation.GET}


def test_everything_can_be_granted(data: Path) -> None:
    command("grant", STREAM_ID, BOB.address, "everything", "--data", str(data))

    assert permissions(data, BOB.address) == set(Operation)


@pytest.mark.parametrize(
    ("words", "error", "problem"),
    [
        ((STREAM_ID, "bob", "publish"), ConfigError, "USER: 'bob' is not an address"),
        ((STREAM_ID, BOB.address, "read"), ConfigError, "OPERATION: 'read' is not one of get, edit"),
        (("nowhere", BOB.address, "publish"), Refused, "Stream nowhere not found"),
        (("declared", BOB.address, "publish"), Refused, "declared in the configuration of the node"),
    ],
)
def test_a_grant_that_is_not_possible_is_an_error(
    data: Path, words: tuple[str, ...], error: type[Exception], problem: str
) -> None:
    with pytest.raises(error, match=problem):
        command("grant", *words, "--data", str(data))


def test_a_directory_that_is_no_nodes_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="is this the data directory of a node"):
        command("grant", STREAM_ID, BOB.address, "publish", "--data", str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()
