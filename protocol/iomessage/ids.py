"""Message ids and element ids.

A message id is 256 bits in base58, unique across devices and restarts, and fast to make: a random
number drawn once per process (over 190 bits) followed by a counter of eleven base58 digits. The ids of one process
share their beginning, so a batch of them compresses to almost nothing, and they sort in the order made.

An element id is a permanent, global name of one sensor of one device: a name-based UUID (RFC 9562, version 5), as 22
base58 digits because every message carries it.
"""

from collections.abc import Iterator
from hashlib import sha1
from itertools import product
from typing import Final

ALPHABET: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"  # Bitcoin's; ascending in ASCII
RANDOM_BYTES: Final = 32
_COUNTER_DIGITS: Final = 11
_COUNTERS: Final = len(ALPHABET) ** _COUNTER_DIGITS
_SMALLEST_STEM: Final = 2**248 // _COUNTERS + 1  # so that an id never begins with a zero byte and is always 32 bytes
_LARGEST_STEM: Final = 2**256 // _COUNTERS - 1
ELEMENT_NAMESPACE: Final = bytes.fromhex("6f1f7d0e3c534b8e9a556d2b0b1c7e41")  # of the UUIDs of elements
ELEMENT_ID_DIGITS: Final = 22  # as many as 128 bits need


def message_ids(random: bytes) -> Iterator[str]:
    """Endless ids from 32 random bytes, which must be fresh for every process and never used twice."""
    if len(random) != RANDOM_BYTES:
        raise ValueError(f"message ids need {RANDOM_BYTES} random bytes, not {len(random)}")
    stem = _SMALLEST_STEM + int.from_bytes(random) % (_LARGEST_STEM - _SMALLEST_STEM + 1)
    return map(_base58(stem).__add__, map("".join, product(ALPHABET, repeat=_COUNTER_DIGITS)))


def element_id(device: str, sensor: str) -> str:
    """The Publisher of a sensor's messages: the UUID of `<address in lower case>/<sensor>` in base58, 22 digits."""
    name = f"{device.lower()}/{sensor}".encode()
    digest = int.from_bytes(sha1(ELEMENT_NAMESPACE + name, usedforsecurity=False).digest()[:16])
    uuid = digest & ~(0xF << 76 | 0x3 << 62) | 5 << 76 | 2 << 62  # the bits of version 5 and of RFC 9562
    return _base58(uuid).rjust(ELEMENT_ID_DIGITS, ALPHABET[0])


def _base58(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, len(ALPHABET))
        digits = ALPHABET[digit] + digits
    return digits
