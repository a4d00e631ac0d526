"""Messages that the node makes for clients that send only content."""

import pytest

from node.clients.authoring import Author, choose_partition
from node.errors import Refused
from protocol.streamr.stream_message.partitioner import partition_of
from tests.support.node_samples import ALICE, a_stream


def refs(*timestamps: int) -> list[tuple[int, int]]:
    author = Author()
    return [
        author.write(a_stream(), "{}", user=ALICE.address, timestamp=timestamp, key=None).message_id[2:4]
        for timestamp in timestamps
    ]


def test_messages_in_order_have_their_own_times() -> None:
    assert refs(1, 2, 3) == [(1, 0), (2, 0), (3, 0)]


def test_no_two_messages_have_the_same_reference_whatever_their_times() -> None:
    made = refs(5, 5, 3, 5, 3, 6)

    assert len(set(made)) == 6
    assert [timestamp for timestamp, _ in made] == [5, 5, 3, 5, 3, 6]


def test_a_key_chooses_the_partition_as_every_client_does() -> None:
    stream = a_stream(partitions=10)

    assert choose_partition(stream, "device") == partition_of("device", 10)
    assert {choose_partition(stream, None) for _ in range(500)} == set(range(10))


def test_content_that_no_message_can_have_is_refused() -> None:
    with pytest.raises(Refused, match="content"):
        Author().write(a_stream(), "", user="", timestamp=1, key=None)
