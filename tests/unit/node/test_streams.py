"""Streams as values."""

import pytest

from node.streams import KEY_EXCHANGE_PREFIX, MAX_STREAM_ID_BYTES, Stream, key_exchange_owner, owner_of
from tests.support.node_samples import ALICE


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"id": ""}, "id: must not be empty"),
        ({"id": "ä" * MAX_STREAM_ID_BYTES}, "id: 1024 bytes are more than 512"),
        ({"id": "a", "partitions": 0}, "partitions: 0 is not between 1 and 100"),
        ({"id": "a", "partitions": 101}, "partitions: 101"),
        ({"id": "a", "storage_days": -1}, "storage_days: -1"),
    ],
)
def test_a_stream_that_exists_is_valid(settings: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Stream(**settings)  # type: ignore[arg-type]


def test_the_owner_of_a_stream_is_the_address_it_starts_with() -> None:
    mixed = "0x" + ALICE.address[2:].upper()

    assert owner_of(f"{mixed}/boiler/one") == ALICE.address
    assert owner_of(ALICE.address) == ALICE.address
    assert owner_of("boiler/one") is None


def test_keys_are_exchanged_on_system_streams_and_on_inboxes() -> None:
    assert key_exchange_owner(KEY_EXCHANGE_PREFIX + ALICE.address) == ALICE.address
    assert key_exchange_owner(ALICE.address) == ALICE.address
    assert key_exchange_owner(f"{ALICE.address}/boiler") is None
    assert key_exchange_owner(KEY_EXCHANGE_PREFIX) is None
