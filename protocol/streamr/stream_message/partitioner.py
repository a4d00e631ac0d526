"""The partition of a message, computed from its partition key as every Streamr client does.

A text key: the first four bytes of the MD5 of its UTF-8 form, read as a signed little-endian integer,
without the sign, modulo the number of partitions. A number key is not hashed. MD5 only distributes the keys here; it
protects nothing.
"""

import hashlib
from typing import overload


@overload
def partition_of(key: str | int, partition_count: int) -> int: ...
@overload
def partition_of(key: float, partition_count: int) -> float: ...


def partition_of(key: str | float, partition_count: int) -> float:
    """The partition, 0 to `partition_count` - 1. Raises ValueError if the count is not positive.

    A number that is not whole gives, as in every client, a partition that is not whole, which no message can have.
    """
    if partition_count < 1:
        raise ValueError(f"partition_count {partition_count} is not positive")
    if partition_count == 1:
        return 0
    return abs(_hash(key) if isinstance(key, str) else key) % partition_count


def _hash(key: str) -> int:
    digest = hashlib.md5(key.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "little", signed=True)
