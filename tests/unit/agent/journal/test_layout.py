from zlib import crc32

import pytest
import zstandard

from agent.journal.layout import (
    FOOT_MAGIC,
    HEAD_BYTES,
    MAX_BLOCK_CHAINS,
    PAGE_BYTES,
    Compress,
    Head,
    Place,
    decode_block,
    encode_block,
    parse_foot,
    parse_head,
    split_into_blocks,
)
from agent.journal.records import Entry

PLACE = Place(journal_id=7, segment_id=9, lane=2, page=3, written_at_ms=1_700_000_000_000)
ENTRIES = [Entry(bytes([number]) * (40 * number), f"chain {number % 2}", 1000 + number, number) for number in range(8)]
ZSTD = zstandard.ZstdCompressor(level=1).compress


def _block(compress: Compress | None = None, entries: list[Entry] = ENTRIES) -> bytes:
    return encode_block(PLACE, 100, entries, compress)


def _head(block: bytes) -> Head:
    head = parse_head(block)
    assert head is not None
    return head


@pytest.mark.parametrize("compress", [None, ZSTD])
def test_a_block_gives_back_its_entries_with_their_positions(compress: Compress | None) -> None:
    block = _block(compress)
    records, losses = decode_block(_head(block), block)
    assert [record.entry for record in records] == ENTRIES
    assert [record.position for record in records] == list(range(100, 108))
    assert {record.committed_at_ms for record in records} == {PLACE.written_at_ms}
    assert losses == []


def test_a_block_fills_whole_pages() -> None:
    assert len(_block()) == PAGE_BYTES
    assert len(_block(entries=[Entry(bytes(PAGE_BYTES), "c", 1, 1)])) == 2 * PAGE_BYTES


def test_head_and_foot_say_the_same() -> None:
    block = _block()
    assert parse_foot(block) == parse_head(block)
    assert block[-HEAD_BYTES:][:4] == FOOT_MAGIC


def test_a_block_that_compression_does_not_make_smaller_is_stored_as_it_is() -> None:
    noise = [Entry(zstandard.compress(bytes(range(256)) * 9), "c", 1, 1)]
    assert _head(_block(ZSTD, noise)).codec == 0


def test_positions_may_have_holes_that_the_block_covers() -> None:
    kept_positions = [101, 104, 70_100]
    block = encode_block(PLACE, 100, ENTRIES[:3], None, kept_positions=kept_positions, end_position=90_100)
    head = _head(block)
    assert [record.position for record in decode_block(head, block).records] == [101, 104, 70_100]
    assert head.end_position == 90_100


@pytest.mark.parametrize(("readings", "overhead_bytes"), [(1, 20), (3, 30)])
def test_rows_name_positions_only_where_these_do_not_follow_from_their_place(
    readings: int, overhead_bytes: int
) -> None:
    entries = [*ENTRIES[:7], ENTRIES[7]._replace(readings=readings)]
    block = _block(entries=entries)
    head = _head(block)
    assert head.raw_bytes == sum(len(entry.payload) for entry in entries) + 8 * overhead_bytes
    assert [record.entry for record in decode_block(head, block).records] == entries


def test_a_flipped_byte_in_the_middle_of_a_raw_body_costs_one_record() -> None:
    block = bytearray(_block())
    head = _head(bytes(block))
    for offset in range(HEAD_BYTES + head.table_bytes, HEAD_BYTES + head.table_bytes + head.stored_bytes):
        block[offset] ^= 0x10
        records, losses = decode_block(head, bytes(block))
        block[offset] ^= 0x10
        assert len(records) == 7
        assert sum(loss.count for loss in losses) == 1
        assert losses[0].first_position not in {record.position for record in records}


def test_a_lost_record_is_named_as_long_as_the_index_is_whole() -> None:
    block = bytearray(_block())
    head = _head(bytes(block))
    block[HEAD_BYTES + head.table_bytes + head.stored_bytes - 1] ^= 1  # the last payload
    [loss] = decode_block(head, bytes(block)).losses
    assert (loss.chain, loss.first, loss.first_position) == ("chain 1", (1007, 7), 107)


def test_a_damaged_compressed_body_costs_the_block() -> None:
    """Whichever byte it is: the checksum of what is stored is all that guards the payloads."""
    block = bytearray(_block(ZSTD))
    head = _head(bytes(block))
    for offset in range(HEAD_BYTES + head.table_bytes, HEAD_BYTES + head.table_bytes + head.stored_bytes):
        block[offset] ^= 1
        records, [loss] = decode_block(head, bytes(block))
        block[offset] ^= 1
        assert records == []
        assert (loss.first_position, loss.last_position, loss.count, loss.chain) == (100, 107, 8, "")


@pytest.mark.parametrize("compress", [None, ZSTD])
def test_the_bytes_of_an_earlier_use_of_the_file_never_pass_for_records(compress: Compress | None) -> None:
    old = encode_block(PLACE._replace(segment_id=8), 50, ENTRIES, compress)
    new = _block(compress)
    mixed = new[:HEAD_BYTES] + old[HEAD_BYTES:]
    assert decode_block(_head(new), mixed).records == []


def test_any_change_to_a_head_makes_it_unreadable() -> None:
    block = bytearray(_block())
    for offset in range(HEAD_BYTES + _head(bytes(block)).table_bytes):
        block[offset] ^= 0x40
        assert parse_head(bytes(block)) is None
        block[offset] ^= 0x40


def test_a_forged_head_with_a_right_checksum_cannot_ask_for_much() -> None:
    block = bytearray(_block())
    block[72:76] = (1 << 31).to_bytes(4, "little")  # size before compression
    table_end = HEAD_BYTES + 16
    block[92:96] = crc32(block[HEAD_BYTES:table_end], crc32(block[4:92])).to_bytes(4, "little")
    assert parse_head(bytes(block)) is None


def test_entries_are_split_at_the_limits_of_a_block() -> None:
    many_chains = [Entry(b"", f"chain {number}", 1, 1) for number in range(MAX_BLOCK_CHAINS + 1)]
    assert len(list(split_into_blocks(many_chains, 1 << 20))) == 2
    large = [Entry(bytes(600), "c", 1, number) for number in range(10)]
    parts = list(split_into_blocks(large, 2000))
    assert [entry for part in parts for entry in part] == large
    assert all(sum(len(entry.payload) for entry in part) <= 2000 for part in parts)
