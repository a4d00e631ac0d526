"""Texts that are read together give what each of them gives when it is parsed alone."""

import binascii
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ingest.quick import Parsed, QuickReader
from ingest.texts import TextColumns, read_texts
from protocol.archive import Record
from protocol.ethereum.hashing import eip191_digest
from testbed.corpus import Device, Made

DEVICE = Device(33)
START_MS = 1_790_000_000_000
CHAIN = DEVICE.chain("boiler")
MADE = [CHAIN.reading(each * 0.5, START_MS + each * 10) for each in range(12)][2:]  # the first has no predecessor
REFS = [made.ref for made in MADE]
TEXTS = [made.text for made in MADE]

telling = st.sampled_from(b'=A/+09afg",\\[]{}- \n\x80')
places = st.integers(0, len(TEXTS[0]) - 1)
changes = st.lists(st.tuples(st.integers(0, len(TEXTS)), places, telling | st.integers(0, 255)), max_size=3)


def read(texts: Sequence[bytes], refs: Sequence[tuple[int, int]]) -> TextColumns | None:
    timestamps_ms, sequences = np.array(refs, np.int64).T
    return read_texts(texts, timestamps_ms, sequences)


def parse(texts: Sequence[bytes], refs: Sequence[tuple[int, int]]) -> list[Parsed | None]:
    reader = QuickReader()
    filed = zip(texts, refs, strict=True)
    return [reader.parse(Record(text, "boiler", *ref, 0, 0, 0), DEVICE.address) for text, ref in filed]


def agree(texts: Sequence[bytes], refs: Sequence[tuple[int, int]]) -> bool:
    """Whether they were taken together; then each is taken alone, and says the same."""
    alone, together = parse(texts, refs), read(texts, refs)
    if together is None or alone[0] is None:  # who reads texts together has parsed the first before
        return False
    said = [each for each in alone if each is not None]
    assert len(said) == len(texts)
    assert together.digests == [eip191_digest(each.signed) for each in said]
    assert together.signatures == [each.signature for each in said]
    assert [row.tobytes() for row in together.messages] == [
        binascii.a2b_base64(each.base64, strict_mode=True) for each in said
    ]
    assert [each.previous for each in said[1:]] == list(refs[:-1])
    assert len({each.identity for each in said}) == 1
    return True


def test_a_chain_of_usual_messages_is_taken_together() -> None:
    assert agree(TEXTS, REFS)


@given(changes=changes)
def test_whatever_is_changed_is_judged_as_each_alone_is_judged(changes: list[tuple[int, int, int]]) -> None:
    texts = [bytearray(text) for text in TEXTS]
    for row, place, byte in changes:
        for text in texts if row == len(texts) else texts[row : row + 1]:  # in all of them, or in one
            text[place] = byte
    agree([bytes(text) for text in texts], REFS)


@given(st.permutations(range(len(TEXTS))))
def test_texts_in_another_order_are_judged_as_each_alone_is_judged(order: list[int]) -> None:
    is_taken = agree([TEXTS[each] for each in order], [REFS[each] for each in order])
    assert is_taken == (order == sorted(order))


@given(st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 1)), min_size=len(REFS), max_size=len(REFS)))
def test_texts_filed_elsewhere_are_not_taken(shifts: list[tuple[int, int]]) -> None:
    refs = [(ms + more_ms, sequence + more) for (ms, sequence), (more_ms, more) in zip(REFS, shifts, strict=True)]
    assert agree(TEXTS, refs) == (refs == REFS)


def test_a_number_that_grows_by_a_digit_does_not_spoil_what_is_read() -> None:
    chain = DEVICE.chain("burst")
    burst: list[Made] = [chain.reading(0.5, START_MS) for _ in range(14)]  # their sequence numbers go from 0 to 13
    assert agree([made.text for made in burst[2:10]], [made.ref for made in burst[2:10]])
    assert agree([made.text for made in burst[11:]], [made.ref for made in burst[11:]])
    for length in {len(made.text) for made in burst[1:]}:
        alike = [made for made in burst[1:] if len(made.text) == length]
        agree([made.text for made in alike], [made.ref for made in alike])
