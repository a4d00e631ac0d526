import json
from itertools import islice
from pathlib import Path
from uuid import UUID, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.iomessage import RANDOM_BYTES, element_id, message_ids
from protocol.iomessage.ids import ALPHABET, ELEMENT_NAMESPACE

VECTORS = Path(__file__).parents[3] / "vectors" / "iomessage"
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


DEVICE = "0x19e7e376e7c213b7e7e7e46cc70a5dd086daff2a"


@given(sensor=st.text(min_size=1))
def test_an_element_id_is_the_uuid_of_device_and_sensor(sensor: str) -> None:
    expected = uuid5(UUID(bytes=ELEMENT_NAMESPACE), f"{DEVICE}/{sensor}")
    written = element_id(DEVICE, sensor)
    assert len(written) == 22
    assert UUID(int=number_of(written)) == expected


def test_element_ids_are_those_of_the_golden_data() -> None:
    vectors = json.loads((VECTORS / "element_ids.json").read_text())
    for vector in vectors:
        assert element_id(vector["device"], vector["sensor"]) == vector["element"]
        assert UUID(int=number_of(vector["element"])) == UUID(vector["uuid"])
    assert len({vector["element"] for vector in vectors}) == len(vectors)


def test_the_case_of_an_address_does_not_change_its_elements() -> None:
    assert element_id(DEVICE.replace("a", "A"), "boiler") == element_id(DEVICE, "boiler")
