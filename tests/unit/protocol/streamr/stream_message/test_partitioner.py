"""Partitions, as real clients computed them."""

import pytest

from protocol.streamr.stream_message.partitioner import partition_of
from tests.support.streamr_vectors import load_vectors


def test_every_key_falls_into_the_partition_that_real_clients_chose() -> None:
    vectors = load_vectors("partitioner")
    assert len(vectors) == 344
    for vector in vectors:
        assert partition_of(vector["key"], vector["partitionCount"]) == vector["partition"], vector


@pytest.mark.parametrize("partition_count", [0, -1])
def test_partition_count_must_be_positive(partition_count: int) -> None:
    with pytest.raises(ValueError, match="partition_count"):
        partition_of("key", partition_count)
