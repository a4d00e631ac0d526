from itertools import islice

import pytest

from protocol.iomessage import RANDOM_BYTES, message_ids
from protocol.iomessage.ids import ALPHABET

LOWEST, HIGHEST = bytes(RANDOM_BYTES), b"\xff" * RANDOM_BYTES


def number_of(text: str) -> int:
    number = 0
    for digit in text:
        number = number * 58 + ALPHABET.index(digit)
    return number


@pytest.mark.parametrize("random", [LOWEST, HIGHEST, bytes(range(32))])
def test_ids_are_256_bit_numbers_that_count_up(random: bytes) -> None:
    numbers = [number_of(text) for text in islice(message_ids(random), 10_000)]
    assert numbers == list(range(numbers[0], numbers[0] + 10_000))
    assert numbers[0] > 2**248
    assert numbers[-1] < 2**256


def test_ids_are_43_or_44_characters_and_sort_in_the_order_made() -> None:
    ids = list(islice(message_ids(bytes(range(32))), 5000))
    assert {len(text) for text in ids} <= {43, 44}
    assert ids == sorted(set(ids))


def test_two_processes_share_no_id() -> None:
    first = set(islice(message_ids(b"a" * 32), 1000))
    assert first.isdisjoint(islice(message_ids(b"a" * 31 + b"b"), 1000))


def test_at_least_160_bits_are_random() -> None:
    stems = {next(message_ids(bytes([0] * (31 - byte) + [1] + [0] * byte)))[:-11] for byte in range(20)}
    assert len(stems) == 20


def test_too_little_randomness_is_refused() -> None:
    with pytest.raises(ValueError, match="32 random bytes, not 16"):
        message_ids(bytes(16))
