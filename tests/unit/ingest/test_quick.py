"""The short way takes nothing that the long way would refuse, and says the same of what it takes."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.quick import QuickReader
from ingest.reasons import Rejected
from ingest.records import verify_record
from protocol.archive import Record
from protocol.streamr import parse_stream_message
from protocol.streamr.signing import Verifier
from testbed.corpus import Device

DEVICE = Device(5)
CHAIN = DEVICE.chain("boiler")
MADE = [CHAIN.reading(float(number), 1_790_000_000_000 + number) for number in range(3)]
ELEMENTS = [orjson.loads(made.text) for made in MADE]
ODD: list[Any] = [None, True, False, 0, 1, 2, 27, 32, 0.0, "0", "", "32", [], {}, [1, 2], -1, 2**60]


def record(elements: Any, *, ref: tuple[int, int] | None = None) -> Record:
    timestamp_ms, sequence = ref or MADE[1].ref
    text = elements if isinstance(elements, bytes) else orjson.dumps(elements)
    return Record(text, "boiler", timestamp_ms, sequence, 0, 0, 0)


@pytest.fixture(scope="module")
def quick() -> QuickReader:
    reader = QuickReader()
    reader.learn(parse_stream_message(MADE[0].text), DEVICE.address)
    return reader


def read(quick: QuickReader, filed: Record) -> Any:
    return quick.read([filed], DEVICE.address)[0]


def test_the_usual_message_is_taken(quick: QuickReader) -> None:
    opened = read(quick, record(ELEMENTS[1]))
    assert opened.identity == (CHAIN.stream_id, 0, "c1")
    assert (opened.ref, opened.previous) == (MADE[1].ref, MADE[0].ref)
    assert opened.content == MADE[1].message.content
    assert read(quick, record(ELEMENTS[0], ref=MADE[0].ref)).previous is None


def test_nothing_is_taken_of_a_device_that_is_not_known() -> None:
    assert read(QuickReader(), record(ELEMENTS[1])) is None


def test_a_message_filed_elsewhere_or_of_another_device_is_not_taken(quick: QuickReader) -> None:
    assert read(quick, record(ELEMENTS[1], ref=MADE[2].ref)) is None
    assert quick.read([record(ELEMENTS[1])], "0x" + "00" * 20) == [None]


@pytest.mark.parametrize("odd", ODD)
def test_an_element_that_is_changed_is_judged_as_the_long_way_judges_it(quick: QuickReader, odd: Any) -> None:
    for place in range(len(ELEMENTS[1])):
        elements = [*ELEMENTS[1]]
        elements[place] = odd
        _agree(quick, record(elements))


@pytest.mark.parametrize("odd", [*ODD, 1_790_000_000_001.0, "c1"])
def test_a_part_of_an_id_that_is_changed_is_judged_as_the_long_way_judges_it(quick: QuickReader, odd: Any) -> None:
    for at, places in ((1, 6), (2, 2)):
        for place in range(places):
            elements = [*ELEMENTS[1]]
            elements[at] = [*elements[at]]
            elements[at][place] = odd
            _agree(quick, record(elements))


@given(flip=st.integers(0, len(MADE[1].text) - 1), bit=st.integers(0, 7))
def test_a_bit_that_is_flipped_is_judged_as_the_long_way_judges_it(quick: QuickReader, flip: int, bit: int) -> None:
    text = bytearray(MADE[1].text)
    text[flip] ^= 1 << bit
    _agree(quick, record(bytes(text)))


def _agree(quick: QuickReader, filed: Record) -> None:
    opened = read(quick, filed)
    if opened is None:
        return
    message = verify_record(filed, DEVICE.address, Verifier())  # raises if it refuses
    assert message.message_id.ref == opened.ref
    assert message.content == opened.content


def test_the_long_way_refuses_what_was_tampered_with() -> None:
    elements = [*ELEMENTS[1]]
    elements[7] = ELEMENTS[2][7]
    with pytest.raises(Rejected, match="did not sign"):
        verify_record(record(elements), DEVICE.address, Verifier())
