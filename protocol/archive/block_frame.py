"""A block as it stands in the file: one frame, compressed, with its line in the manifest."""

import hashlib
from dataclasses import dataclass

from protocol.archive.block import decode_block
from protocol.archive.compression import decompress
from protocol.archive.errors import CorruptArchive
from protocol.archive.layout import FRAME_HEAD
from protocol.archive.manifest import BlockEntry
from protocol.archive.records import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The records of one block. `first_record` is the number of the first of them within the archive, from 0."""

    index: int
    entry: BlockEntry
    first_record: int
    records: list[Record]


def decode_block_frame(frame: bytes, *, index: int, offset: int, first_record: int) -> Block:
    """`frame` with its head, from `offset` of the file. Raises: CorruptArchive, naming the block."""
    try:
        raw = decompress(frame[FRAME_HEAD.size :])
        records = decode_block(raw)
    except CorruptArchive as error:
        raise CorruptArchive(error.problem, block=index, record=error.record, offset=offset) from error
    entry = BlockEntry(
        offset=offset,
        frame_bytes=len(frame),
        raw_bytes=len(raw),
        records=len(records),
        sha256=hashlib.sha256(frame).digest(),
    )
    return Block(index=index, entry=entry, first_record=first_record, records=records)
