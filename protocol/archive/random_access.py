"""Reads an archive with random access: the header and the manifest first, then any block alone."""

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from operator import gt

from protocol.archive.block import Block, decode_block_frame
from protocol.archive.errors import CorruptArchive
from protocol.archive.header import Header
from protocol.archive.layout import (
    FRAME_HEAD,
    PREAMBLE,
    TAIL_BYTES,
    FrameKind,
    check_preamble,
    check_signature,
    decode_frame_head,
    decode_signature,
)
from protocol.archive.limits import MAX_BLOCKS, MAX_CHAINS, MAX_RAW_BYTES, MAX_RECORDS
from protocol.archive.manifest import Manifest
from protocol.archive.tally import Tally
from protocol.errors import Truncated

ReadAt = Callable[[int, int], bytes]  # offset, count → that many bytes, fewer only at the file's end


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenArchive:
    """An archive whose header, manifest and signature are valid. Each block is checked when it is read."""

    header: Header
    manifest: Manifest
    first_records: tuple[int, ...]  # per block: the number of its first record within the archive
    read_at: ReadAt

    def block(self, index: int) -> Block:
        """Read one block. Raises: CorruptArchive if it is not the block that the device signed."""
        entry = self.manifest.blocks[index]
        frame = self.read_at(entry.offset, entry.frame_bytes)
        if hashlib.sha256(frame).digest() != entry.sha256:
            raise CorruptArchive(
                f"damaged: its {entry.records} records are not what was signed",
                block=index,
                offset=entry.offset,
            )
        _, length = decode_frame_head(frame[: FRAME_HEAD.size], entry.offset, expected=(FrameKind.BLOCK,))
        block = decode_block_frame(frame, index=index, offset=entry.offset, first_record=self.first_records[index])
        if block.entry != entry or length != len(frame) - FRAME_HEAD.size:
            raise CorruptArchive("not the block that the manifest describes", block=index, offset=entry.offset)
        return block

    def index_of(self, record: int) -> int:
        """The index of the block that contains this record, by its number within the archive."""
        return bisect_right(self.first_records, record) - 1

    def blocks(self) -> Iterator[Block]:
        """Read all blocks in order; at the end, check the totals. Raises: CorruptArchive."""
        for found in self.inspect():
            if isinstance(found, CorruptArchive):
                raise found
            yield found

    def inspect(self) -> Iterator[Block | CorruptArchive]:
        """Read all blocks in order; a damaged block gives its error in its place, and the others follow."""
        tally, is_undamaged = Tally(), True
        for index in range(len(self.manifest.blocks)):
            try:
                block = self.block(index)
                _add_to_tally(tally, block)
            except CorruptArchive as error:
                is_undamaged = False
                yield error
            else:
                yield block
        if is_undamaged:
            yield from self._inspect_totals(tally)

    def _inspect_totals(self, tally: Tally) -> Iterator[CorruptArchive]:
        try:
            _check_manifest(self.manifest, tally)
        except CorruptArchive as error:
            yield error


def open_archive(read_at: ReadAt, size_bytes: int) -> OpenArchive:
    """Read and check everything but the blocks. Raises: WireError."""
    check_preamble(read_at(0, len(PREAMBLE)))
    header_payload = _read_frame(read_at, len(PREAMBLE), FrameKind.HEADER)
    blocks_start = len(PREAMBLE) + FRAME_HEAD.size + len(header_payload)
    tail_start = max(blocks_start, size_bytes - TAIL_BYTES)
    manifest_offset, signature = decode_signature(_read_tail(read_at, tail_start), tail_start)
    if not blocks_start <= manifest_offset <= tail_start:
        raise CorruptArchive(f"the manifest cannot be at byte {manifest_offset}", offset=tail_start)
    manifest_payload = _read_frame(read_at, manifest_offset, FrameKind.MANIFEST)
    if manifest_offset + FRAME_HEAD.size + len(manifest_payload) != tail_start:
        raise CorruptArchive("bytes between manifest and signature", offset=manifest_offset)
    header = Header.from_bytes(header_payload)
    check_signature(header.binding.archive_key, manifest_payload, signature, offset=tail_start)
    manifest = Manifest.from_bytes(manifest_payload)
    if hashlib.sha256(read_at(0, blocks_start)).digest() != manifest.header_sha256:
        raise CorruptArchive("the header is not the one that was signed", offset=0)
    _check_extent(manifest, blocks_start, manifest_offset)
    first_records = tuple(accumulate((block.records for block in manifest.blocks), initial=0))
    return OpenArchive(header=header, manifest=manifest, first_records=first_records, read_at=read_at)


def _read_frame(read_at: ReadAt, offset: int, kind: FrameKind) -> bytes:
    _, length = decode_frame_head(read_at(offset, FRAME_HEAD.size), offset, expected=(kind,))
    payload = read_at(offset + FRAME_HEAD.size, length)
    if len(payload) < length:
        raise Truncated(f"the archive ends within its {kind.name.lower()}", offset=offset)
    return payload


def _read_tail(read_at: ReadAt, offset: int) -> bytes:
    """A file without this frame at its end is most likely incomplete, so it is reported as truncated."""
    try:
        return _read_frame(read_at, offset, FrameKind.SIGNATURE)
    except CorruptArchive as error:
        raise Truncated("the archive does not end with a signature; it may be cut short", offset=offset) from error


def _check_extent(manifest: Manifest, blocks_start: int, manifest_offset: int) -> None:
    """Blocks follow each other (the manifest checks that itself) and fill the space between header and manifest."""
    first = manifest.blocks[0].offset if manifest.blocks else blocks_start
    end = manifest.blocks[-1].offset + manifest.blocks[-1].frame_bytes if manifest.blocks else blocks_start
    if (first, end) != (blocks_start, manifest_offset):
        raise CorruptArchive("the manifest's blocks do not fill the archive", offset=blocks_start)


def _add_to_tally(tally: Tally, block: Block) -> None:
    """Raises: CorruptArchive, naming block and record, for positions out of order or totals out of bounds."""
    try:
        tally.add_block(block.entry, block.columns)
    except CorruptArchive as error:
        raise CorruptArchive(
            error.problem, block=block.index, record=error.record, offset=block.entry.offset
        ) from error
    counted = (len(tally.blocks), tally.chains, tally.records, tally.raw_bytes)
    if any(map(gt, counted, (MAX_BLOCKS, MAX_CHAINS, MAX_RECORDS, MAX_RAW_BYTES))):
        problem = "more than an archive may hold: {} blocks, {} chains, {} records, {} bytes".format(*counted)
        raise CorruptArchive(problem, block=block.index, offset=block.entry.offset)


def _check_manifest(manifest: Manifest, tally: Tally) -> None:
    """Raises: CorruptArchive, naming the first block that differs, unless the manifest states what was counted."""
    for index, (stated, found) in enumerate(zip(manifest.blocks, tally.blocks, strict=False)):
        if stated != found:
            raise CorruptArchive("not the block that the manifest describes", block=index, offset=found.offset)
    if tally.manifest(manifest.header_sha256, manifest.entry, manifest.losses) != manifest:
        raise CorruptArchive("the manifest does not describe this archive", offset=0)
