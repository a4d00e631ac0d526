"""The manifest at the end of an archive: its place in the device log, its blocks with offsets and digests, its chains,
lanes and losses."""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from protocol import strict_cbor
from protocol.archive.limits import (
    MANIFEST_BOUNDS,
    MAX_BLOCK_BYTES,
    MAX_BLOCKS,
    MAX_CHAINS,
    MAX_LOSSES,
    MAX_RAW_BLOCK_BYTES,
    MAX_RAW_BYTES,
    MAX_READINGS_PER_RECORD,
    MAX_RECORDS,
    MAX_RECORDS_PER_BLOCK,
)
from protocol.archive.records import check_chain
from protocol.checks import check_within
from protocol.devicelog.entry import MAX_LANES, LogEntry
from protocol.losses import MAX_LANE, MAX_POSITION, Loss
from protocol.reference import Reference, check_reference
from protocol.strict_cbor import CborValue, field, items

DIGEST_BYTES = 32


class BlockEntry(NamedTuple):
    offset: int  # of the block's frame in the file
    frame_bytes: int  # head included
    raw_bytes: int  # decompressed
    records: int
    readings: int
    sha256: bytes  # of the frame, head included


class ChainEntry(NamedTuple):
    chain: str
    records: int
    readings: int
    first: Reference  # of the chain's first and last record in the order of the file
    last: Reference


class LaneEntry(NamedTuple):
    lane: int
    records: int
    readings: int
    first_position: int
    last_position: int  # of the last reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    header_sha256: bytes  # of the file's bytes before the first block
    entry: LogEntry
    blocks: tuple[BlockEntry, ...]
    chains: tuple[ChainEntry, ...]  # in order of first appearance
    lanes: tuple[LaneEntry, ...]  # in order of their number
    losses: tuple[Loss, ...]

    @property
    def records(self) -> int:
        return sum(block.records for block in self.blocks)

    @property
    def readings(self) -> int:
        return sum(block.readings for block in self.blocks)

    def __post_init__(self) -> None:
        check_within("header digest bytes", len(self.header_sha256), DIGEST_BYTES, DIGEST_BYTES)
        check_within("blocks", len(self.blocks), 0, MAX_BLOCKS)
        check_within("chains", len(self.chains), 0, MAX_CHAINS)
        check_within("lanes", len(self.lanes), 0, MAX_LANES)
        check_within("losses", len(self.losses), 0, MAX_LOSSES)
        for block in self.blocks:
            _check_block(block)
        for chain in self.chains:
            _check_chain(chain)
        for lane in self.lanes:
            _check_lane(lane, self.entry)
        self._check_sums()

    def _check_sums(self) -> None:
        check_within("records", self.records, 0, MAX_RECORDS)
        check_within("decompressed bytes", sum(block.raw_bytes for block in self.blocks), 0, MAX_RAW_BYTES)
        _check_sum("records", self.records, self.chains, self.lanes)
        _check_sum("readings", self.readings, self.chains, self.lanes)
        if len({each.chain for each in self.chains}) != len(self.chains):
            raise ValueError("a chain is listed twice")
        if not all(before.lane < after.lane for before, after in pairwise(self.lanes)):
            raise ValueError("lanes are not in order")
        if not all(before.offset + before.frame_bytes == after.offset for before, after in pairwise(self.blocks)):
            raise ValueError("blocks do not follow each other")

    def to_bytes(self) -> bytes:
        return strict_cbor.encode(
            {
                "header_sha256": self.header_sha256,
                "entry": self.entry.to_cbor(),
                "blocks": [list(block) for block in self.blocks],
                "chains": [_chain_to_cbor(each) for each in self.chains],
                "lanes": [list(lane) for lane in self.lanes],
                "losses": [loss.to_cbor() for loss in self.losses],
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> "Manifest":
        """Raises: WireError."""
        with strict_cbor.invalid_is_corrupt("manifest"):
            value = strict_cbor.decode(data, MANIFEST_BOUNDS)
            found = strict_cbor.fields(value, "header_sha256", "entry", "blocks", "chains", "lanes", "losses")
            return cls(
                header_sha256=field(found["header_sha256"], bytes),
                entry=LogEntry.from_cbor(found["entry"]),
                blocks=tuple(_block_from_cbor(each) for each in items(found["blocks"])),
                chains=tuple(_chain_from_cbor(each) for each in items(found["chains"])),
                lanes=tuple(
                    LaneEntry(*(field(number, int) for number in items(each, 5))) for each in items(found["lanes"])
                ),
                losses=tuple(Loss.from_cbor(each) for each in items(found["losses"])),
            )


def _check_sum(what: str, total: int, chains: tuple[ChainEntry, ...], lanes: tuple[LaneEntry, ...]) -> None:
    by_chain, by_lane = (sum(getattr(each, what) for each in entries) for entries in (chains, lanes))
    if not total == by_chain == by_lane:
        raise ValueError(f"{total} {what} in blocks, {by_chain} in chains, {by_lane} in lanes")


def _check_block(block: BlockEntry) -> None:
    check_within("block offset", block.offset, 0, MAX_POSITION)
    check_within("block frame bytes", block.frame_bytes, 1, MAX_BLOCK_BYTES + 5)
    check_within("block bytes", block.raw_bytes, 1, MAX_RAW_BLOCK_BYTES)
    check_within("block records", block.records, 1, MAX_RECORDS_PER_BLOCK)
    check_within("block readings", block.readings, block.records, block.records * MAX_READINGS_PER_RECORD)
    check_within("block digest bytes", len(block.sha256), DIGEST_BYTES, DIGEST_BYTES)


def _check_chain(entry: ChainEntry) -> None:
    check_chain(entry.chain)
    check_within("chain records", entry.records, 1, MAX_RECORDS)
    check_within("chain readings", entry.readings, entry.records, entry.records * MAX_READINGS_PER_RECORD)
    check_reference("chain's first", entry.first)
    check_reference("chain's last", entry.last)


def _check_lane(lane: LaneEntry, entry: LogEntry) -> None:
    check_within("lane", lane.lane, 0, MAX_LANE)
    check_within("lane records", lane.records, 1, MAX_RECORDS)
    check_within("lane's first position", lane.first_position, 0, lane.last_position)
    check_within("lane's last position", lane.last_position, lane.first_position, MAX_POSITION)
    check_within("lane readings", lane.readings, lane.records, lane.last_position - lane.first_position + 1)
    covered = entry.range_of(lane.lane)
    if not covered.first <= lane.first_position <= lane.last_position < covered.next:
        raise ValueError(f"lane {lane.lane} has positions outside {covered.first}..{covered.next}, what it covers")


def _block_from_cbor(value: CborValue) -> BlockEntry:
    *numbers, sha256 = items(value, 6)
    offset, frame_bytes, raw_bytes, records, readings = (field(number, int) for number in numbers)
    return BlockEntry(offset, frame_bytes, raw_bytes, records, readings, field(sha256, bytes))


def _chain_to_cbor(entry: ChainEntry) -> CborValue:
    return [entry.chain, entry.records, entry.readings, list(entry.first), list(entry.last)]


def _chain_from_cbor(value: CborValue) -> ChainEntry:
    chain, records, readings, first, last = items(value, 5)
    references = Reference.from_cbor(first), Reference.from_cbor(last)
    return ChainEntry(field(chain, str), field(records, int), field(readings, int), *references)
