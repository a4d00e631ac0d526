import hashlib
import os
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from protocol.archive.block import compressor, encode_block
from protocol.archive.errors import CorruptArchive
from protocol.archive.layout import (
    FRAME_HEAD,
    PREAMBLE,
    SIGNATURE,
    TAIL_BYTES,
    FrameKind,
    bytes_to_sign,
    encode_frame,
)
from protocol.archive.limits import MAX_HEADER_BYTES, MAX_RAW_BLOCK_BYTES
from protocol.archive.manifest import BlockEntry, Manifest
from protocol.archive.random_access import open_archive
from protocol.archive.records import Columns, Record
from protocol.archive.tally import Tally
from protocol.archive.writer import ArchiveWriter
from protocol.errors import Truncated, Unsupported, WireError
from tests.support.archives import EMPTY_LOG, HEADER, LOSS, read_archive, read_at_of, record, sign, write_archive

RECORDS = [record(number) for number in range(40)]
ENTRY = EMPTY_LOG.entry({0: 10_000, 1: 10_000})
ARCHIVE = write_archive(RECORDS, [LOSS])
TINY = write_archive(RECORDS[:4], [LOSS], block_target_bytes=150)  # two blocks


def forge(
    blocks: list[list[Record]], *, manifest: Manifest | None = None, kind: FrameKind = FrameKind.BLOCK, cut: int = 0
) -> bytes:
    """An archive that a careless or hostile device signs: any blocks, any manifest, all digests true."""
    start = PREAMBLE + encode_frame(FrameKind.HEADER, HEADER.to_bytes())
    tally, body = Tally(), start
    for records in blocks:
        raw = encode_block(Columns.of(records))
        frame = encode_frame(kind, compressor(3).compress(raw) + bytes(cut))
        frame = frame[: len(frame) - cut]
        readings = sum(record.readings for record in records)
        entry = BlockEntry(len(body), len(frame), len(raw), len(records), readings, hashlib.sha256(frame).digest())
        tally.add_block(entry, Columns.of(records))
        body += frame
    payload = (manifest or tally.manifest(hashlib.sha256(start).digest(), ENTRY, ())).to_bytes()
    signature = SIGNATURE.pack(len(body), sign(bytes_to_sign(payload)))
    return body + encode_frame(FrameKind.MANIFEST, payload) + encode_frame(FrameKind.SIGNATURE, signature)


def test_records_losses_and_header_come_back_and_are_accounted_for() -> None:
    archive, records = read_archive(ARCHIVE)
    assert records == RECORDS
    assert archive.header == HEADER
    assert archive.manifest.losses == (LOSS,)
    assert archive.manifest.records == 40
    assert len(archive.manifest.blocks) > 3
    assert [(each.chain, each.records, each.readings) for each in archive.manifest.chains] == [
        ("chain-0", 14, 14),
        ("chain-1", 13, 13),
        ("chain-2", 13, 13),
    ]
    assert archive.manifest.chains[0].first == RECORDS[0].reference
    assert archive.manifest.chains[0].last == RECORDS[39].reference
    assert [tuple(lane) for lane in archive.manifest.lanes] == [(0, 20, 20, 10, 48), (1, 20, 20, 11, 49)]


def test_the_name_is_what_sha256sum_says() -> None:
    writer = ArchiveWriter(HEADER, sign=sign)
    data = writer.begin() + writer.add(record(0)) + writer.finish(ENTRY)
    assert writer.sha256 == hashlib.sha256(data).digest()
    assert writer.size_bytes == len(data)


def test_the_same_records_give_the_same_bytes() -> None:
    assert write_archive(RECORDS, [LOSS]) == ARCHIVE


def test_an_archive_may_be_empty() -> None:
    archive, records = read_archive(write_archive([]))
    assert records == []
    assert archive.manifest.blocks == ()


def test_every_beginning_is_refused() -> None:
    for length in range(len(TINY)):
        with pytest.raises(WireError):
            read_archive(TINY[:length])


def test_no_byte_can_change_unnoticed() -> None:
    for offset in range(len(TINY)):
        damaged = bytearray(TINY)
        damaged[offset] ^= 0x01
        with pytest.raises(WireError):
            read_archive(bytes(damaged))


def test_bytes_after_the_end_are_refused() -> None:
    with pytest.raises(WireError):
        read_archive(ARCHIVE + b"x")


def test_what_is_not_an_archive_says_so_at_once() -> None:
    with pytest.raises(CorruptArchive, match="not an archive"):
        read_archive(b"PK\x03\x04")
    with pytest.raises(Unsupported, match="archive format 0004"):
        read_archive(b"HGARCH\x00\x04" + ARCHIVE[8:])


def test_any_block_is_read_alone_and_knows_its_place() -> None:
    archive = open_archive(read_at_of(ARCHIVE), len(ARCHIVE))
    block = archive.block(2)
    assert block.records == RECORDS[block.first_record : block.first_record + len(block.records)]
    assert block.first_record == sum(entry.records for entry in archive.manifest.blocks[:2])


def test_damage_in_one_block_names_it_and_leaves_the_others_readable() -> None:
    entry = open_archive(read_at_of(ARCHIVE), len(ARCHIVE)).manifest.blocks[1]
    damaged = bytearray(ARCHIVE)
    damaged[entry.offset + entry.frame_bytes - 1] ^= 0xFF
    archive = open_archive(read_at_of(bytes(damaged)), len(damaged))
    with pytest.raises(CorruptArchive) as caught:
        archive.block(1)
    assert (caught.value.block, caught.value.offset) == (1, entry.offset)
    assert archive.block(0).records
    assert archive.block(2).records


def test_a_position_that_goes_backwards_names_block_and_record() -> None:
    writer = ArchiveWriter(HEADER, sign=sign)
    writer.begin()
    writer.add(record(4))
    writer.add(record(2))
    with pytest.raises(CorruptArchive, match="position 12 of lane 0 is not after 14"):
        writer.finish(ENTRY)


def test_a_signed_manifest_that_counts_wrongly_is_refused() -> None:
    honest = read_archive(forge([RECORDS[:5], RECORDS[5:9]]))[0].manifest
    last_chain = honest.chains[-1]._replace(last=honest.chains[-1].last._replace(sequence=77))
    lying = Manifest(
        header_sha256=honest.header_sha256,
        entry=ENTRY,
        blocks=honest.blocks,
        chains=(*honest.chains[:-1], last_chain),
        lanes=honest.lanes,
        losses=(),
    )
    data = forge([RECORDS[:5], RECORDS[5:9]], manifest=lying)
    with pytest.raises(CorruptArchive, match="does not describe this archive"):
        read_archive(data)


@pytest.mark.parametrize("forgery", [{"kind": FrameKind.HEADER}, {"cut": 1}])
def test_a_block_frame_with_a_false_head_is_refused(forgery: Any) -> None:
    data = forge([RECORDS[:5]], **forgery)
    with pytest.raises(CorruptArchive):
        open_archive(read_at_of(data), len(data)).block(0)


def test_a_signed_manifest_of_another_block_names_the_block() -> None:
    honest = read_archive(forge([RECORDS[:5], RECORDS[5:9]]))[0].manifest
    wrong = honest.blocks[1]._replace(sha256=bytes(32))
    lying = Manifest(
        header_sha256=honest.header_sha256,
        entry=ENTRY,
        blocks=(honest.blocks[0], wrong),
        chains=honest.chains,
        lanes=honest.lanes,
        losses=(),
    )
    data = forge([RECORDS[:5], RECORDS[5:9]], manifest=lying)
    with pytest.raises(CorruptArchive, match="block 1"):
        read_archive(data)


def test_a_signature_by_another_key_is_refused() -> None:
    writer = ArchiveWriter(HEADER, sign=lambda _: bytes(64))
    with pytest.raises(CorruptArchive, match="not by the key in the header"):
        read_archive(writer.begin() + writer.finish(ENTRY))


def test_a_frame_that_declares_too_much_is_refused_before_it_is_read() -> None:
    with pytest.raises(CorruptArchive, match="too long"):
        read_archive(PREAMBLE + FRAME_HEAD.pack(FrameKind.HEADER, MAX_HEADER_BYTES + 1))


def test_frames_out_of_order_are_refused() -> None:
    with pytest.raises(CorruptArchive, match="where header is expected"):
        read_archive(PREAMBLE + encode_frame(FrameKind.BLOCK, b""))
    with pytest.raises(Truncated, match="does not end with a signature"):
        read_archive(PREAMBLE + encode_frame(FrameKind.HEADER, HEADER.to_bytes()) * 2)


def test_many_small_bombs_are_stopped_by_their_total(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("protocol.archive.random_access.MAX_RAW_BYTES", 10_000_000)
    bombs = [[record(number, text=bytes(4 * 1024 * 1024))] for number in range(3)]
    data = forge(bombs)
    assert len(data) < 4096
    with pytest.raises(CorruptArchive, match="more than an archive may hold"):
        read_archive(data)


@pytest.mark.parametrize("number", [-1, 2**63])
def test_a_manifest_offset_out_of_the_file_is_corrupt(number: int) -> None:
    tail = bytearray(ARCHIVE)
    struct.pack_into(">Q", tail, len(ARCHIVE) - TAIL_BYTES + FRAME_HEAD.size, number % 2**64)
    with pytest.raises(CorruptArchive, match="cannot be at"):
        open_archive(read_at_of(bytes(tail)), len(tail))


def test_the_writer_says_when_it_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("protocol.archive.writer.MAX_CHAINS", 2)
    writer = ArchiveWriter(HEADER, sign=sign)
    writer.begin()
    writer.add(record(0))
    writer.add(record(1))
    assert writer.is_full
    with pytest.raises(ValueError, match="full"):
        writer.add(record(2))
    with pytest.raises(ValueError, match="full"):
        writer.add_loss(LOSS)


def test_memory_of_writer_and_reader_does_not_grow_with_the_archive(tmp_path: Path) -> None:
    def peak_of(count: int) -> int:
        tracemalloc.reset_peak()
        writer = ArchiveWriter(HEADER, sign=sign, block_target_bytes=50_000)
        path = tmp_path / str(count)
        with path.open("wb") as file:
            file.write(writer.begin())
            for number in range(count):
                file.write(writer.add(record(number, text=b"%0600d" % number)))
            file.write(writer.finish(ENTRY))
        with path.open("rb") as file:
            for block in open_archive(lambda at, size: os.pread(file.fileno(), size, at), writer.size_bytes).blocks():
                assert block.records
        return tracemalloc.get_traced_memory()[1]

    tracemalloc.start()
    try:
        small, large = peak_of(1_000), peak_of(8_000)
    finally:
        tracemalloc.stop()
    assert large < small + 100_000  # the manifest's 52 bytes per block are all that grows


def test_the_largest_block_a_writer_can_make_is_one_a_reader_takes() -> None:
    nearly = [record(number, text=bytes(1000)) for number in range(2000)]
    data = write_archive([*nearly, record(2001, text=bytes(4 * 1024 * 1024))], block_target_bytes=2 * 1024 * 1024)
    archive, records = read_archive(data)
    assert max(block.raw_bytes for block in archive.manifest.blocks) < MAX_RAW_BLOCK_BYTES
    assert len(records) == 2001
