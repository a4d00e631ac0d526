"""Read an archive from its first byte to its last, as it comes in, and believe nothing."""

import hashlib
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from operator import gt

from protocol.archive.block import Block, decode_block_frame
from protocol.archive.errors import CorruptArchive
from protocol.archive.header import Header
from protocol.archive.layout import (
    FRAME_HEAD,
    PREAMBLE,
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

FEED_BYTES = 65_536  # how much of what is fed is looked at in one go


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """What is known of an archive once all of it was read and found to be true."""

    header: Header
    manifest: Manifest
    sha256: bytes
    size_bytes: int


class ArchiveReader:
    """Feed it a file's bytes in pieces of any size, take blocks as they come, and finish.

    Blocks are given out before the manifest and the signature were seen: do nothing with them that cannot be undone
    until `finish` has returned. It holds one frame and one block of records at most, whatever it is fed.
    """

    def __init__(self) -> None:
        self.header: Header | None = None  # known when the first block is
        self._buffer = bytearray()
        self._offset = 0  # of the buffer's first byte in the file
        self._sha256 = hashlib.sha256()
        self._tally = Tally()
        self._archive: Archive | None = None
        self._parser = self._parse()

    def feed(self, data: bytes) -> Iterator[Block]:
        """The blocks that became whole, one by one; run it to its end before feeding again. Raises: WireError."""
        for start in range(0, len(data), FEED_BYTES):
            self._buffer += data[start : start + FEED_BYTES]
            if self._archive is not None:
                raise CorruptArchive("bytes after the archive's end", offset=self._offset)
            for block in self._parser:
                if block is None:
                    break
                yield block

    def finish(self) -> Archive:
        """Raises: Truncated if the archive's end was not seen."""
        if self._archive is not None and not self._buffer:
            return self._archive
        if self._archive is not None:
            raise CorruptArchive("bytes after the archive's end", offset=self._offset)
        if self._offset == 0:
            check_preamble(bytes(self._buffer))
        raise Truncated("the archive ends before its signature", offset=self._offset + len(self._buffer))

    def _parse(self) -> Iterator[Block | None]:
        """The file's grammar, from start to end. Gives None where it needs more bytes."""
        check_preamble((yield from self._take(len(PREAMBLE))))
        _, frame = yield from self._take_frame(FrameKind.HEADER)
        self.header = header = Header.from_bytes(frame[FRAME_HEAD.size :])
        header_sha256 = self._sha256.digest()
        start = self._offset
        kind, frame = yield from self._take_frame(FrameKind.BLOCK, FrameKind.MANIFEST)
        while kind == FrameKind.BLOCK:
            yield self._decode_block(frame, start)
            start = self._offset
            kind, frame = yield from self._take_frame(FrameKind.BLOCK, FrameKind.MANIFEST)
        manifest_payload = frame[FRAME_HEAD.size :]
        tail_start = self._offset
        _, frame = yield from self._take_frame(FrameKind.SIGNATURE)
        manifest_offset, signature = decode_signature(frame[FRAME_HEAD.size :], tail_start)
        check_signature(header.binding.archive_key, manifest_payload, signature, offset=tail_start)
        if manifest_offset != start:
            raise CorruptArchive(f"the manifest is at {start}, not at {manifest_offset}", offset=tail_start)
        manifest = Manifest.from_bytes(manifest_payload)
        check_manifest(manifest, self._tally, header_sha256, offset=start)
        self._archive = Archive(header=header, manifest=manifest, sha256=self._sha256.digest(), size_bytes=self._offset)

    def _decode_block(self, frame: bytes, offset: int) -> Block:
        index = len(self._tally.blocks)
        block = decode_block_frame(frame, index=index, offset=offset, first_record=self._tally.records)
        add_to_tally(self._tally, block)
        return block

    def _take_frame(self, *expected: FrameKind) -> Generator[None, None, tuple[FrameKind, bytes]]:
        """A whole frame with its head. The head is judged before anything is waited for."""
        offset = self._offset
        head = yield from self._take(FRAME_HEAD.size)
        kind, length = decode_frame_head(head, offset, expected=expected)
        return kind, head + (yield from self._take(length))

    def _take(self, count: int) -> Generator[None, None, bytes]:
        while len(self._buffer) < count:
            yield None
        with memoryview(self._buffer) as view:
            taken = bytes(view[:count])
        del self._buffer[:count]
        self._offset += count
        self._sha256.update(taken)
        return taken


def add_to_tally(tally: Tally, block: Block) -> None:
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


def check_manifest(manifest: Manifest, tally: Tally, header_sha256: bytes, *, offset: int) -> None:
    """Whether the manifest says what was counted. Raises: CorruptArchive, naming the first block that differs."""
    for index, (said, found) in enumerate(zip(manifest.blocks, tally.blocks, strict=False)):
        if said != found:
            raise CorruptArchive("not the block that the manifest describes", block=index, offset=found.offset)
    if tally.manifest(header_sha256, manifest.losses) != manifest:
        raise CorruptArchive("the manifest does not describe this archive", offset=offset)
