"""Writes an archive, piece by piece, from records that are added one by one."""

import hashlib
from collections.abc import Callable

from protocol.archive.block import DEFAULT_ZSTD_LEVEL, RECORD_OVERHEAD_BYTES, compressor, encode_block
from protocol.archive.header import Header
from protocol.archive.layout import PREAMBLE, SIGNATURE, FrameKind, bytes_to_sign, encode_frame
from protocol.archive.limits import (
    DEFAULT_BLOCK_TARGET_BYTES,
    MAX_BLOCK_TARGET_BYTES,
    MAX_BLOCKS,
    MAX_CHAINS,
    MAX_LOSSES,
    MAX_RAW_BYTES,
    MAX_RECORDS,
    MAX_RECORDS_PER_BLOCK,
    MAX_TEXT_BYTES,
)
from protocol.archive.manifest import BlockEntry, LaneEntry
from protocol.archive.records import Columns, Record
from protocol.archive.tally import Tally
from protocol.checks import check_within
from protocol.devicelog.entry import LogEntry
from protocol.losses import Loss


class ArchiveWriter:
    """Writes one archive; the caller writes the bytes that each call returns to the file.

        file = writer.begin() + writer.add(record) + writer.add(record) + … + writer.finish(head.entry(writer.reached))

    The entry comes last, because the positions that the archive covers depend on the records that fit into it. The same
    header, records, losses, entry and settings give the same bytes (with the same zstd library). It holds at most one
    block of records. `sign` returns the Ed25519 signature of a short message by the header's key.
    """

    def __init__(
        self,
        header: Header,
        *,
        sign: Callable[[bytes], bytes],
        block_target_bytes: int = DEFAULT_BLOCK_TARGET_BYTES,
        zstd_level: int = DEFAULT_ZSTD_LEVEL,
    ) -> None:
        check_within("block_target_bytes", block_target_bytes, 1, MAX_BLOCK_TARGET_BYTES)
        self._header = header
        self._sign = sign
        self._block_target_bytes = block_target_bytes
        self._compressor = compressor(zstd_level)
        self._sha256 = hashlib.sha256()
        self._tally = Tally()
        self._losses: list[Loss] = []
        self._pending: list[Record] = []
        self._pending_bytes = 0
        self._chains: set[str] = set()
        self.size_bytes = 0
        self.records = 0

    @property
    def is_full(self) -> bool:
        """Whether one more record or loss could exceed a limit of the format. If so, finish, and begin another one."""
        return (
            self.records >= MAX_RECORDS
            or len(self._chains) >= MAX_CHAINS
            or len(self._losses) >= MAX_LOSSES
            or len(self._tally.blocks) >= MAX_BLOCKS - 1
            or self._tally.raw_bytes + self._pending_bytes >= MAX_RAW_BYTES - 2 * MAX_TEXT_BYTES
        )

    @property
    def sha256(self) -> bytes:
        """Of all bytes returned so far; after `finish`, the name of the archive."""
        return self._sha256.digest()

    @property
    def reached(self) -> dict[int, int]:
        """Lane → the next position, after its last record added."""
        return {**self._tally.reached, **{record.lane: record.next_position for record in self._pending}}

    @property
    def lanes(self) -> tuple[LaneEntry, ...]:
        """The positions of each lane in the blocks closed so far; after `finish`, in the archive."""
        return self._tally.lanes

    def begin(self) -> bytes:
        start = self._emit(PREAMBLE + encode_frame(FrameKind.HEADER, self._header.to_bytes()))
        self._header_sha256 = self.sha256
        return start

    def add(self, record: Record) -> bytes:
        """Add a record. Returns the bytes of a block when one is full, else none.

        Raises: ValueError when the archive is full or a record of the block does not fit the format, CorruptArchive if
        its positions do not increase.
        """
        if self.is_full:
            raise ValueError("the archive is full")
        self._pending.append(record)
        self._pending_bytes += len(record.text) + len(record.chain) + RECORD_OVERHEAD_BYTES
        self._chains.add(record.chain)
        self.records += 1
        full = self._pending_bytes >= self._block_target_bytes or len(self._pending) >= MAX_RECORDS_PER_BLOCK
        return self._close_block() if full else b""

    def add_loss(self, loss: Loss) -> None:
        if self.is_full:
            raise ValueError("the archive is full")
        self._losses.append(loss)

    def finish(self, entry: LogEntry) -> bytes:
        """The rest of the archive: the last block, the manifest and the signature.

        Raises: ValueError if the entry does not cover the positions of the records.
        """
        last_block = self._close_block() if self._pending else b""
        manifest_offset = self.size_bytes
        manifest = self._tally.manifest(self._header_sha256, entry, self._losses).to_bytes()
        signature = SIGNATURE.pack(manifest_offset, self._sign(bytes_to_sign(manifest)))
        end = encode_frame(FrameKind.MANIFEST, manifest) + encode_frame(FrameKind.SIGNATURE, signature)
        return last_block + self._emit(end)

    def _close_block(self) -> bytes:
        columns = Columns.of(self._pending)
        raw = encode_block(columns)
        frame = encode_frame(FrameKind.BLOCK, self._compressor.compress(raw))
        entry = BlockEntry(
            offset=self.size_bytes,
            frame_bytes=len(frame),
            raw_bytes=len(raw),
            records=len(self._pending),
            readings=sum(columns.readings),
            sha256=hashlib.sha256(frame).digest(),
        )
        self._tally.add_block(entry, columns)
        self._pending, self._pending_bytes = [], 0
        return self._emit(frame)

    def _emit(self, data: bytes) -> bytes:
        self._sha256.update(data)
        self.size_bytes += len(data)
        return data
