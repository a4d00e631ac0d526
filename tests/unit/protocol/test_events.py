from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import WireError
from protocol.events import GapNotice

NOTICE = GapNotice(journal=bytes(16), number=7, chain="boiler", count=3, first=(10, 0), last=(12, 1), cause="shed")
NUMBERS = st.integers(0, 2**63 - 1)
REFERENCES = st.tuples(st.integers(0, 2**53 - 1), st.integers(0, 2**32 - 1))


@given(st.binary(min_size=16, max_size=16), NUMBERS, st.text(min_size=1, max_size=50), REFERENCES, REFERENCES)
def test_a_notice_survives_its_bytes(
    journal: bytes, number: int, chain: str, one: tuple[int, int], other: tuple[int, int]
) -> None:
    first, last = sorted((one, other))
    notice = GapNotice(journal=journal, number=number, chain=chain, count=1, first=first, last=last, cause="shed")
    assert GapNotice.from_bytes(notice.to_bytes()) == notice


def test_a_notice_may_not_know_its_chain() -> None:
    notice = replace(NOTICE, chain="", first=None, last=None)
    assert GapNotice.from_bytes(notice.to_bytes()) == notice


@pytest.mark.parametrize(
    "wrong",
    [
        {"journal": bytes(15)},
        {"number": -1},
        {"count": 0},
        {"cause": ""},
        {"cause": "x" * 257},
        {"chain": "x" * 1025},
        {"chain": ""},
        {"first": None},
        {"first": (13, 0)},
        {"first": (-1, 0)},
        {"last": (12, 2**32)},
    ],
)
def test_a_notice_that_makes_no_sense_does_not_exist(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        replace(NOTICE, **wrong)


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
