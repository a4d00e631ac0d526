import struct
from typing import Any

import pytest

from protocol.archive.block import decode_block, encode_block
from protocol.archive.errors import CorruptArchive
from protocol.archive.limits import MAX_CHAIN_BYTES, MAX_RECORDS_PER_BLOCK, MAX_TEXT_BYTES
from protocol.archive.records import Columns, Record
from tests.support.archives import record

RECORDS = [record(number) for number in range(7)]
RAW = encode_block(Columns.of(RECORDS))


def test_records_come_back_as_they_went_in() -> None:
    assert decode_block(RAW).records() == RECORDS


def test_empty_texts_and_the_largest_numbers_fit() -> None:
    extreme = [Record(b"", "é" * (MAX_CHAIN_BYTES // 2), 2**53 - 1, 2**32 - 1, 255, 2**63 - 1, 2**53 - 1, 65_535)]
    assert decode_block(encode_block(Columns.of(extreme))).records() == extreme


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("chain", ""),
        ("chain", "x" * (MAX_CHAIN_BYTES + 1)),
        ("text", bytes(MAX_TEXT_BYTES + 1)),
        ("timestamp_ms", -1),
        ("timestamp_ms", 2**53),
        ("sequence", 2**32),
        ("lane", 256),
        ("position", 2**63),
        ("arrived_at_ms", -1),
        ("readings", 0),
        ("readings", 65_536),
    ],
)
def test_a_record_that_does_not_fit_is_refused_by_the_name_of_its_field(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=field):
        encode_block(Columns.of([RECORDS[0], RECORDS[1]._replace(**{field: value})]))


def test_no_more_records_than_the_limit() -> None:
    with pytest.raises(ValueError, match="records in a block"):
        encode_block(Columns.of([record(number, text=b"") for number in range(MAX_RECORDS_PER_BLOCK + 1)]))


def test_every_beginning_of_a_block_is_corrupt() -> None:
    for length in range(len(RAW)):
        with pytest.raises(CorruptArchive):
            decode_block(RAW[:length])


def test_bytes_after_the_last_text_are_corrupt() -> None:
    with pytest.raises(CorruptArchive, match="1 bytes after"):
        decode_block(RAW + b"\0")


def test_a_text_that_runs_past_the_end_names_its_record() -> None:
    lengths_at = 8 + 2 * 3 + 7 * (2 + 1 + 8 + 8 + 4 + 8 + 2)
    damaged = bytearray(RAW)
    struct.pack_into(">I", damaged, lengths_at + 4 * 5, 1000)
    with pytest.raises(CorruptArchive) as caught:
        decode_block(bytes(damaged))
    assert caught.value.record == 5


def test_a_chain_index_out_of_range_names_its_record() -> None:
    damaged = bytearray(RAW)
    struct.pack_into(">H", damaged, 8 + 2 * 3 + 2 * 4, 3)
    with pytest.raises(CorruptArchive, match=r"record 4: chain 3 of 3"):
        decode_block(bytes(damaged))


def test_chain_keys_have_one_order_and_no_double() -> None:
    keys_at = RAW.index(b"chain-0chain-1")
    with pytest.raises(CorruptArchive, match="repeated"):
        decode_block(RAW[:keys_at] + b"chain-0chain-0" + RAW[keys_at + 14 :])
    swapped = bytearray(RAW)
    struct.pack_into(">HH", swapped, 8 + 2 * 3, 1, 0)
    with pytest.raises(CorruptArchive, match="order of first use"):
        decode_block(bytes(swapped))


def test_a_chain_key_that_is_not_text_is_corrupt() -> None:
    with pytest.raises(CorruptArchive, match="UTF-8"):
        decode_block(RAW.replace(b"chain-0", b"\xffhain-0"))


@pytest.mark.parametrize("counts", [(0, 0), (1, 0), (0, 1), (1, 2), (2**32 - 1, 1), (2**32 - 1, 2**32 - 1)])
def test_counts_that_cannot_be_are_refused_before_anything_is_built(counts: tuple[int, int]) -> None:
    with pytest.raises(CorruptArchive):
        decode_block(struct.pack(">II", *counts) + bytes(100))
