"""Blocks that are decoded together give what each of them gives alone."""

from typing import Any

import pytest

import ingest.blocks
from ingest.archive_rows import DecodeSettings, decode_archive
from ingest.blocks import DamagedBlock, Neighbours, read_blocks
from protocol.archive.random_access import OpenArchive, open_archive
from testbed.corpus.archives import Archive, Device

START_MS = 1_790_000_000_000
COUNT = 60
FORGED = 45  # a record of a late block


def opened(data: bytes) -> OpenArchive:
    return open_archive(lambda offset, count: data[offset : offset + count], len(data))


def made() -> bytes:
    """Several blocks of two chains, and one record whose signature is another's."""
    device = Device(41)
    chains = device.chain("boiler"), device.chain("roiler")
    archive = Archive(device, START_MS)
    for number in range(COUNT):
        reading = chains[number % 2].reading(0.5 * number, START_MS + number)
        signed_by_another = reading.text[:-10] + bytes(reversed(reading.text[-10:-2])) + reading.text[-2:]
        archive.file(reading, text=signed_by_another if number == FORGED else None)
    return archive.to_bytes()


def damaged(data: bytes, index: int) -> bytes:
    entry = opened(data).manifest.blocks[index]
    place = entry.offset + entry.frame_bytes // 2
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def decode(data: bytes) -> list[dict[str, Any]]:
    """All rows, in an order that does not depend on how they were decoded."""
    batches: list[Any] = []
    rows = [*decode_archive("x", data, 0, DecodeSettings(), batches.append), *batches]
    plain = [row for batch in rows for row in batch.to_pylist()]
    order = ("kind", "record", "reading")
    return sorted(plain, key=lambda row: [(row.get(name) is None, row.get(name) or 0) for name in order])


def test_neighbours_end_where_a_block_is_damaged() -> None:
    data = made()
    blocks = opened(data).manifest.blocks
    assert len(blocks) > 4
    before, hole, after = read_blocks(opened(damaged(data, 2)))
    assert isinstance(before, Neighbours)
    assert isinstance(hole, DamagedBlock)
    assert isinstance(after, Neighbours)
    counts = [block.records for block in blocks]
    assert (before.first_record, len(before.columns.texts)) == (0, sum(counts[:2]))
    assert hole.entry == blocks[2]
    assert (after.first_record, len(after.columns.texts)) == (sum(counts[:3]), sum(counts[3:]))


def test_no_more_blocks_are_held_together_than_the_bound_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    archive = opened(made())
    sizes = [block.raw_bytes for block in archive.manifest.blocks]
    monkeypatch.setattr(ingest.blocks, "MAX_BYTES_TOGETHER", max(sizes) + 1)
    held = [len(each.columns.texts) for each in read_blocks(archive) if isinstance(each, Neighbours)]
    assert len(held) == -(-len(sizes) // 2)
    assert sum(held) == COUNT


def test_no_more_readings_are_held_together_than_the_bound_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(42)
    chain = device.chain("boiler")
    packs = [chain.pack([0.5] * (1 + number % 7), START_MS + number) for number in range(COUNT)]
    data = Archive(device, START_MS).add(packs).to_bytes()
    together = decode(data)
    monkeypatch.setattr(ingest.blocks, "MAX_READINGS_TOGETHER", 10)
    held = [each for each in read_blocks(opened(data)) if isinstance(each, Neighbours)]
    assert all(10 <= sum(each.columns.readings) < 17 for each in held[:-1])
    numbers = [each.first_record + place for each in held for place in range(len(each.columns.texts))]
    assert numbers == list(range(COUNT))
    assert decode(data) == together


@pytest.mark.parametrize("hurt", [None, 0, 2])
def test_rows_do_not_depend_on_which_blocks_were_decoded_together(
    monkeypatch: pytest.MonkeyPatch, hurt: int | None
) -> None:
    data = made() if hurt is None else damaged(made(), hurt)
    together = decode(data)
    monkeypatch.setattr(ingest.blocks, "MAX_BYTES_TOGETHER", 1)
    assert decode(data) == together


def test_a_rejected_record_is_reported_with_the_block_that_holds_it() -> None:
    data = made()
    [row] = [row for row in decode(data) if row.get("kind") == "quarantine"]
    archive = opened(data)
    assert row["record"] == FORGED
    block = archive.block(archive.index_of(FORGED))
    assert row["offset"] == block.entry.offset
    assert block.first_record <= FORGED < block.first_record + block.entry.records
