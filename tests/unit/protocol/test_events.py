from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import WireError
from protocol.events import GapNotice, RefusedNotice
from protocol.reference import Reference
from tests.support.archives import LOSS

NOTICE = GapNotice(journal=bytes(16), loss=LOSS)
NUMBERS = st.integers(0, 2**63 - 1)
REFERENCES = st.tuples(st.integers(0, 2**53 - 1), st.integers(0, 2**32 - 1))


@given(st.binary(min_size=16, max_size=16), NUMBERS, st.text(min_size=1, max_size=50), REFERENCES, REFERENCES)
def test_a_notice_survives_its_bytes(
    journal: bytes, number: int, chain: str, one: tuple[int, int], other: tuple[int, int]
) -> None:
    first, last = sorted((Reference(*one), Reference(*other)))
    loss = replace(LOSS, number=number, chain=chain, count=1, first=first, last=last)
    notice = GapNotice(journal=journal, loss=loss, archived=bool(number % 2))
    assert GapNotice.from_bytes(notice.to_bytes()) == notice


def test_a_notice_may_not_know_its_chain() -> None:
    notice = replace(NOTICE, loss=replace(LOSS, chain="", first=None, last=None))
    assert GapNotice.from_bytes(notice.to_bytes()) == notice


def test_a_notice_names_its_journal() -> None:
    with pytest.raises(ValueError, match="journal"):
        replace(NOTICE, journal=bytes(15))


@given(st.binary(max_size=200))
def test_any_bytes_give_a_notice_or_a_wire_error(data: bytes) -> None:
    try:
        GapNotice.from_bytes(data)
    except WireError:
        return


def test_every_beginning_of_a_notice_is_refused() -> None:
    data = NOTICE.to_bytes()
    for end in range(len(data)):
        with pytest.raises(WireError):
            GapNotice.from_bytes(data[:end])


@given(st.text(max_size=100), st.text(max_size=100), st.integers(1, 2**63 - 1), st.text(max_size=100))
def test_a_notice_of_refused_readings_survives_its_bytes(sensor: str, quantity: str, count: int, reason: str) -> None:
    notice = RefusedNotice(sensor=sensor, quantity=quantity, count=count, reason=reason)
    assert RefusedNotice.from_bytes(notice.to_bytes()) == notice


@given(st.binary(max_size=60))
def test_bytes_that_are_no_notice_of_refused_readings_are_a_wire_error(data: bytes) -> None:
    with pytest.raises(WireError):
        RefusedNotice.from_bytes(data)
