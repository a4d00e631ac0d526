"""Few requests, and the right words for each register."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.errors import ConfigError
from drivers.modbus.driver import build
from drivers.modbus.registers import MAX_BITS, MAX_WORDS, Register, plan_batches, read_register


def register(address: int, **fields: object) -> Register:
    return Register(quantity=f"q{address}", address=address, **fields)  # type: ignore[arg-type]


def test_neighbours_are_read_together_and_tables_apart() -> None:
    registers = [register(10), register(0), register(1, type="uint32"), register(0, table="input")]
    plan = [(batch.table, batch.address, batch.count) for batch in plan_batches(registers, max_gap=7)]
    assert plan == [("holding", 0, 11), ("input", 0, 1)]


def test_a_gap_that_is_too_wide_makes_two_requests() -> None:
    plan = [(batch.address, batch.count) for batch in plan_batches([register(0), register(10)], max_gap=8)]
    assert plan == [(0, 1), (10, 1)]


@given(st.lists(st.integers(0, 600), min_size=1, max_size=60), st.integers(0, 100), st.booleans())
def test_every_register_is_in_one_request_that_the_protocol_allows(
    addresses: list[int], gap: int, are_bits: bool
) -> None:
    kind = {"table": "coil", "type": "bit"} if are_bits else {"type": "float64"}
    registers = [register(address, **kind) for address in addresses]
    batches = plan_batches(registers, gap)
    assert sorted(r.address for batch in batches for r in batch.registers) == sorted(addresses)
    for batch in batches:
        assert batch.count <= (MAX_BITS if are_bits else MAX_WORDS)
        for each in batch.registers:
            assert batch.address <= each.address
            assert each.address + each.width <= batch.address + batch.count


@pytest.mark.parametrize(
    ("fields", "words", "value"),
    [
        ({"type": "int16"}, [0xFFFE], -2),
        ({"type": "uint16", "scale": 0.1, "offset": -40}, [615], 21.5),
        ({"type": "uint32"}, [1, 2], 65538),
        ({"type": "uint32", "word_order": "little"}, [2, 1], 65538),
        ({"type": "int64"}, [0xFFFF] * 4, -1),
        ({"type": "float32"}, list(struct.unpack(">2H", struct.pack(">f", 230.5))), 230.5),
        ({"type": "float64", "word_order": "little"}, list(struct.unpack(">4H", struct.pack(">d", 0.1)))[::-1], 0.1),
        ({"type": "float32"}, [0x7FC0, 0], None),
        ({"type": "int16", "invalid": -32768}, [0x8000], None),
        ({"type": "bit", "table": "coil"}, [1], True),
        ({"type": "float64", "scale": 10}, list(struct.unpack(">4H", struct.pack(">d", 1.5e308))), None),
    ],
)
def test_words_mean_what_the_type_says(fields: dict[str, object], words: list[int], value: float | None) -> None:
    assert read_register(register(0, **fields), words) == value


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"type": "bit"}, "type: bit does not go with table holding"),
        ({"table": "coil"}, "type: uint16 does not go with table coil"),
        ({"address": 65535, "type": "uint32"}, "address: uint32 at 65535 goes beyond"),
    ],
)
def test_registers_that_cannot_be_are_refused(fields: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Register(**{"quantity": "q", "address": 0, **fields})  # type: ignore[arg-type]
    assert str(caught.value).startswith(problem)


@pytest.mark.parametrize("field", ["quantity", "unit"])
def test_a_name_that_no_reading_can_have_is_refused_by_the_settings(field: str) -> None:
    table = {"quantity": "q", "address": 0, field: "x" * 129}
    with pytest.raises(ConfigError, match=rf"registers\[0\]\.{field}: .* is longer than 128 characters"):
        build("meter", {"port": "tcp://localhost:502", "registers": [table]})
