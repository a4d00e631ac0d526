"""Read any block of an archive that can be sought in, for the price of the manifest and that block."""

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate

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
from protocol.archive.manifest import Manifest
from protocol.archive.reader import add_to_tally, check_manifest
from protocol.archive.tally import Tally
from protocol.errors import Truncated

ReadAt = Callable[[int, int], bytes]  # offset, count → that many bytes, fewer only at the file's end


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenArchive:
    """An archive whose header, manifest and signature are true. Each block is checked when it is read."""

    header: Header
    manifest: Manifest
    first_records: tuple[int, ...]  # of each block, its first record's number within the archive
    read_at: ReadAt

    def block(self, index: int) -> Block:
        """Raises: CorruptArchive if it is not the block that the device signed for."""
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
        """Of the block that has this record, by its number within the archive."""
        return bisect_right(self.first_records, record) - 1

    def blocks(self) -> Iterator[Block]:
        """All of them in order; at the end, the totals are checked as well. Raises: CorruptArchive."""
        for found in self.inspect():
            if isinstance(found, CorruptArchive):
                raise found
            yield found

    def inspect(self) -> Iterator[Block | CorruptArchive]:
        """The same, but damage is told in place of a block, and the rest still comes."""
        tally, is_whole = Tally(), True
        for index in range(len(self.manifest.blocks)):
            try:
                block = self.block(index)
                add_to_tally(tally, block)
            except CorruptArchive as error:
                is_whole = False
                yield error
            else:
                yield block
        if is_whole:
            yield from self._inspect_totals(tally)

    def _inspect_totals(self, tally: Tally) -> Iterator[CorruptArchive]:
        try:
            check_manifest(self.manifest, tally, self.manifest.header_sha256, offset=0)
        except CorruptArchive as error:
            yield error


def open_archive(read_at: ReadAt, size_bytes: int) -> OpenArchive:
    """Check everything but the blocks. Raises: WireError."""
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
    """A file without this frame at its end is most likely cut short, and says so."""
    try:
        return _read_frame(read_at, offset, FrameKind.SIGNATURE)
    except CorruptArchive as error:
        raise Truncated("the archive does not end with a signature; it may be cut short", offset=offset) from error


def _check_extent(manifest: Manifest, blocks_start: int, manifest_offset: int) -> None:
    """Blocks follow each other (the manifest itself sees to that) and fill all between header and manifest."""
    first = manifest.blocks[0].offset if manifest.blocks else blocks_start
    end = manifest.blocks[-1].offset + manifest.blocks[-1].frame_bytes if manifest.blocks else blocks_start
    if (first, end) != (blocks_start, manifest_offset):
        raise CorruptArchive("the manifest's blocks do not fill the archive", offset=blocks_start)
