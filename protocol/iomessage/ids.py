"""Message ids: 256 bits in base58, unique across devices and restarts, in a fraction of a microsecond.

An id is a random number drawn once per process (over 190 bits) followed by a counter of eleven base58 digits. The ids
of one process share their beginning, so a batch of them compresses to almost nothing, and they sort in the order made.
"""

from collections.abc import Iterator
from itertools import product
from typing import Final

ALPHABET: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"  # Bitcoin's; ascending in ASCII
RANDOM_BYTES: Final = 32
_COUNTER_DIGITS: Final = 11
_COUNTERS: Final = len(ALPHABET) ** _COUNTER_DIGITS
_SMALLEST_STEM: Final = 2**248 // _COUNTERS + 1  # so that an id never begins with a zero byte and is always 32 bytes
_LARGEST_STEM: Final = 2**256 // _COUNTERS - 1


def message_ids(random: bytes) -> Iterator[str]:
    """Endless ids from 32 random bytes, which must be fresh for every process and never used twice."""
    if len(random) != RANDOM_BYTES:
        raise ValueError(f"message ids need {RANDOM_BYTES} random bytes, not {len(random)}")
    stem = _SMALLEST_STEM + int.from_bytes(random) % (_LARGEST_STEM - _SMALLEST_STEM + 1)
    return map(_base58(stem).__add__, map("".join, product(ALPHABET, repeat=_COUNTER_DIGITS)))


def _base58(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, len(ALPHABET))
        digits = ALPHABET[digit] + digits
    return digits
