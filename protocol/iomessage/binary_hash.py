"""The hash of a binary message, computed from its bytes without encoding it again."""

import hashlib
from functools import lru_cache
from typing import Final

from protocol.iomessage.as_bytes import HEADER, HEADER_BYTES

HASH_FIELD: Final = 12  # index in the unpacked header, whose first item is the version
_HASH_LENGTH_AT: Final = 16
_HASH_LENGTH_END: Final = 18
_CACHED_HEADERS: Final = 256  # as in `as_bytes`: the messages of one device differ in values, not in lengths


def hash_of_binary(data: bytes) -> str:
    """The digest in lower-case hex, as in the hash field."""
    return digest_of_binary(data).hex()


def digest_of_binary(data: bytes) -> bytes:
    """The SHA-256 of a whole binary message with its hash field empty.

    `data` has been decoded before, so its lengths are valid. A message in the minimal profile is linked by this hash;
    for messages of other writers use `message_hash`.
    """
    header, start, end = _around_hash(data[:HEADER_BYTES])
    return hashlib.sha256(b"".join((header, data[HEADER_BYTES:start], data[end:]))).digest()


@lru_cache(maxsize=_CACHED_HEADERS)
def _around_hash(header: bytes) -> tuple[bytes, int, int]:
    """The header with a hash length of 0, and the offsets at which the hash begins and ends."""
    lengths = HEADER.unpack(header)
    start = HEADER_BYTES + sum(lengths[1:HASH_FIELD])
    unlinked = header[:_HASH_LENGTH_AT] + b"\x00\x00" + header[_HASH_LENGTH_END:]
    return unlinked, start, start + lengths[HASH_FIELD]
