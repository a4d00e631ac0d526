"""Texts that are read together give what each of them gives when it is parsed alone."""

import binascii
from collections.abc import Sequence
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.streamr.stream_message.text_columns import TextColumns, read_texts
from protocol.streamr.stream_message.usual_text import USUAL_TEXT, UsualText, parse_usual_text
from testbed.corpus.archives import Device, Made

DEVICE = Device(33)
START_MS = 1_790_000_000_000
COUNT = 8


def made(sensor: str) -> list[Made]:
    chain = DEVICE.chain(sensor)
    chain.sensor = sensor
    return [chain.reading(each * 0.5, START_MS + each * 10) for each in range(COUNT + 2)][2:]  # all have predecessors


RUNS = [made(name) for name in ("boiler22", "boiler", "boiler2")]  # no padding, two and one
RUN = RUNS[0]
REFS = [each.ref for each in RUN]
TEXTS = [each.text for each in RUN]
AT = {name: slice(*found.span(name)) for found in USUAL_TEXT.finditer(TEXTS[0]) for name in found.groupdict()}

telling = st.sampled_from(b'=A/+09afg",\\[]{}- \n\x80')
rows = st.integers(0, COUNT)  # the last stands for all of them
SHORTEST = min(len(each.text) for run in RUNS for each in run)
changes = st.lists(st.tuples(rows, st.integers(0, SHORTEST - 1), telling | st.integers(0, 255)), max_size=3)
references = st.tuples(st.integers(START_MS, START_MS + 9), st.integers(0, 12))


def read(texts: Sequence[bytes], refs: Sequence[tuple[int, int]]) -> TextColumns | None:
    return read_texts(texts, [timestamp_ms for timestamp_ms, _ in refs], [sequence for _, sequence in refs])


def parse(texts: Sequence[bytes], refs: Sequence[tuple[int, int]]) -> list[UsualText | None]:
    parsed = [parse_usual_text(text) for text in texts]
    return [each if each is not None and each.ref == ref else None for each, ref in zip(parsed, refs, strict=True)]


def agree(texts: Sequence[bytes], refs: Sequence[tuple[int, int]]) -> bool:
    """Whether they were taken together; then each is taken alone, and says the same."""
    alone, together = parse(texts, refs), read(texts, refs)
    if together is None or alone[0] is None:  # who reads texts together has parsed the first before
        return False
    said = [each for each in alone if each is not None]
    assert len(said) == len(texts)
    assert together.digests == [each.digest for each in said]
    assert together.signatures == [each.signature for each in said]
    assert [row.tobytes() for row in together.messages] == [
        binascii.a2b_base64(each.base64, strict_mode=True) for each in said
    ]
    assert [each.previous for each in said[1:]] == list(refs[:-1])
    assert len({each.identity for each in said}) == 1
    return True


def test_a_chain_of_usual_messages_is_taken_together() -> None:
    paddings = {each[0].text.count(b"=") for each in RUNS}
    assert paddings == {0, 1, 2}
    for run in RUNS:
        assert agree([each.text for each in run], [each.ref for each in run])


@given(run=st.sampled_from(RUNS), changes=changes)
def test_whatever_is_changed_is_judged_as_each_alone_is_judged(
    run: list[Made], changes: list[tuple[int, int, int]]
) -> None:
    texts = [bytearray(each.text) for each in run]
    for row, place, byte in changes:
        for text in texts if row == len(texts) else texts[row : row + 1]:
            text[place] = byte
    agree([bytes(text) for text in texts], [each.ref for each in run])


@pytest.mark.parametrize("field", AT)
@pytest.mark.parametrize("byte", b'=A/9f"\\,')
def test_a_field_that_begins_or_ends_otherwise_is_judged_as_each_alone_is_judged(field: str, byte: int) -> None:
    for run, row in product(RUNS, (1, COUNT - 1)):
        found = USUAL_TEXT.fullmatch(run[row].text)
        assert found is not None
        for place in (found.start(field), found.end(field) - 2, found.end(field) - 1):
            text = bytearray(run[row].text)
            text[place] = byte
            texts = [bytes(text) if number == row else each.text for number, each in enumerate(run)]
            agree(texts, [each.ref for each in run])


def test_padding_where_the_first_has_none_is_not_taken_for_its_bytes() -> None:
    end = AT["base64"].stop
    padded = TEXTS[1][: end - 2] + b"==" + TEXTS[1][end:]
    assert not agree([TEXTS[0], padded], REFS[:2])


@given(refs=st.lists(references, min_size=2, max_size=6))
def test_references_in_any_order_are_judged_as_each_alone_is_judged(refs: list[tuple[int, int]]) -> None:
    texts = [_written(ref, before) for before, ref in pairwise([(START_MS - 1, 0), *refs])]
    if len({len(text) for text in texts}) == 1:
        agree(texts, refs)


def _written(ref: tuple[int, int], previous: tuple[int, int]) -> bytes:
    """A text of the usual form with these references; it is not signed."""
    text = TEXTS[0]
    between = text[AT["sequence"].stop : AT["previous_ms"].start]
    head, tail = text[: AT["timestamp_ms"].start], text[AT["previous_sequence"].stop :]
    return b"%b%d,%d%b%d,%d%b" % (head, *ref, between, *previous, tail)


@pytest.mark.parametrize("shift", [(1, 0), (-1, 0), (0, 1), (0, 10)])
def test_a_text_filed_elsewhere_is_not_taken(shift: tuple[int, int]) -> None:
    for row in range(COUNT):
        timestamp_ms, sequence = REFS[row]
        elsewhere = (timestamp_ms + shift[0], sequence + shift[1])
        assert not agree(TEXTS, [*REFS[:row], elsewhere, *REFS[row + 1 :]])


def test_a_number_that_grows_by_a_digit_does_not_spoil_what_is_read() -> None:
    chain = DEVICE.chain("burst")
    burst: list[Made] = [chain.reading(0.5, START_MS) for _ in range(14)]  # their sequence numbers go from 0 to 13
    assert agree([each.text for each in burst[2:10]], [each.ref for each in burst[2:10]])
    assert agree([each.text for each in burst[11:]], [each.ref for each in burst[11:]])
    for length in {len(each.text) for each in burst[1:]}:
        alike = [each for each in burst[1:] if len(each.text) == length]
        agree([each.text for each in alike], [each.ref for each in alike])
