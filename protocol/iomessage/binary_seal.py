"""The fast way to judge the seal of a binary message as it came, without writing it again."""

import hashlib
from typing import Final

from protocol.iomessage.as_bytes import HEADER, HEADER_BYTES

HASH_FIELD: Final = 12  # among the lengths of the header, the version being the first
_HASH_LENGTH_AT: Final = 16
_HASH_LENGTH_END: Final = 18


def sealed_hash(data: bytes) -> str:
    """The SHA-256, in lower-case hex, of a whole binary message with its hash field empty.

    `data` has been decoded before, so its lengths are true. A message in the minimal profile is sealed by this hash; of
    any other writer's bytes, `message_hash` decides.
    """
    lengths = HEADER.unpack_from(data)
    start = HEADER_BYTES + sum(lengths[1:HASH_FIELD])
    header = data[:_HASH_LENGTH_AT] + b"\x00\x00" + data[_HASH_LENGTH_END:HEADER_BYTES]
    return hashlib.sha256(header + data[HEADER_BYTES:start] + data[start + lengths[HASH_FIELD] :]).hexdigest()
