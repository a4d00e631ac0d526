"""Decode the records of neighbouring blocks: whole runs where a chain is one, the others one by one."""

from collections.abc import Iterator
from functools import partial
from itertools import chain, groupby
from typing import Any, Final, NamedTuple

from ingest.decoded import Decoded
from ingest.keyring import Keyring
from ingest.reasons import Quarantined
from ingest.records import Readers, decode_record
from ingest.runs import MIN_RUN, Run, lay_out_run
from ingest.walk import LINKED, Walk
from protocol.archive.block import Block
from protocol.archive.manifest import BlockEntry
from protocol.archive.random_access import OpenArchive
from protocol.archive.records import Columns, Record
from protocol.errors import WireError
from protocol.streamr.stream_message.usual_text import UsualText

MAX_BYTES_TOGETHER: Final = 8 * 1024 * 1024  # of texts; the block that reaches it is the last


class Neighbours(NamedTuple):
    """The records of blocks that follow each other. The longer a run, the less each of its messages costs."""

    first_record: int  # its number within the archive
    columns: Columns


class DamagedBlock(NamedTuple):
    entry: BlockEntry
    problem: WireError


def read_blocks(archive: OpenArchive) -> Iterator[Neighbours | DamagedBlock]:
    """All blocks in their order, a few of them at a time."""
    together: list[Block] = []
    for index, entry in enumerate(archive.manifest.blocks):
        try:
            together.append(archive.block(index))
        except WireError as problem:
            yield from _neighbours(together)
            yield DamagedBlock(entry, problem)
            together = []
        if sum(block.entry.raw_bytes for block in together) >= MAX_BYTES_TOGETHER:
            yield from _neighbours(together)
            together = []
    yield from _neighbours(together)


def _neighbours(blocks: list[Block]) -> Iterator[Neighbours]:
    """One, or none."""
    if blocks:
        columns = zip(*(block.columns for block in blocks), strict=True)
        yield Neighbours(blocks[0].first_record, Columns(*(list(chain.from_iterable(column)) for column in columns)))


class DecodedBlocks(NamedTuple):
    """What neighbouring blocks hold. Each of their records is in one of these."""

    runs: list[tuple[Run, list[str]]]  # with how each of its messages is linked to the one before it
    rows: list[tuple[Any, ...]]
    links: list[str]
    rejected: list[tuple[int, Record, Quarantined]]


class BlockDecoder:
    """Decodes the blocks of one archive in their order, and notes in the walk what they hold."""

    def __init__(self, device: str, walk: Walk, keyring: Keyring, readers: Readers) -> None:
        self._device = device
        self._walk = walk
        self._keyring = keyring
        self._readers = readers

    def decode(self, blocks: Neighbours) -> DecodedBlocks:
        done = DecodedBlocks([], [], [], [])
        for stretch in _stretches(blocks.columns):
            alone = 0 if self._readers.quick.knows(self._device) else 1  # decoded alone, which makes it known
            self._take_each(stretch[:alone], blocks, done)
            rest = stretch[alone:]
            if len(rest) < MIN_RUN or not self._take_run(rest, blocks, done):
                self._take_each(rest, blocks, done)
        return done

    def _take_run(self, indexes: list[int], blocks: Neighbours, done: DecodedBlocks) -> bool:
        """Whether these records of one chain are a perfect run, and were taken."""
        quick, device = self._readers.quick, self._device
        head, start = blocks.columns.record(indexes[0]), blocks.first_record
        first = quick.decode(head, quick.parse(head, device), start + indexes[0])
        if first is None or not quick.knows(device):
            return False
        numbers = [start + index for index in indexes]
        run = lay_out_run(first, numbers, blocks.columns.at(indexes), partial(quick.verify, device))
        link = None if run is None else self._walk.take(head, first)
        if run is None or not isinstance(link, str):
            return False
        self._walk.go_on(head.chain, run, blocks.columns.positions[indexes[-1]])
        done.runs.append((run, [link] + [LINKED] * (run.messages - 1)))
        return True

    def _take_each(self, indexes: list[int], blocks: Neighbours, done: DecodedBlocks) -> None:
        records = [blocks.columns.record(index) for index in indexes]
        verified = self._readers.quick.read(records, self._device)
        for index, record, parsed in zip(indexes, records, verified, strict=True):
            self._take_one(record, parsed, blocks.first_record + index, done)

    def _take_one(self, record: Record, parsed: UsualText | None, number: int, done: DecodedBlocks) -> None:
        try:
            decoded = self._readers.quick.decode(record, parsed, number) or self._decode_long(record, number)
        except Quarantined as problem:
            self._reject(record, number, problem, done)
            return
        link = self._walk.take(record, decoded)
        if isinstance(link, Quarantined):
            self._reject(record, number, link, done)
        else:
            done.rows.append(decoded.row)
            done.links.append(link)

    def _decode_long(self, record: Record, number: int) -> Decoded:
        return decode_record(record, number, self._device, self._keyring, self._readers)

    def _reject(self, record: Record, number: int, problem: Quarantined, done: DecodedBlocks) -> None:
        done.rejected.append((number, record, problem))
        self._walk.reject(record)


def _stretches(columns: Columns) -> Iterator[list[int]]:
    """Chain by chain, the places of records that follow each other and are as long as each other.

    What one chain says does not depend on what another says in between.
    """
    chains: dict[str, list[int]] = {}
    for index, name in enumerate(columns.chains):
        chains.setdefault(name, []).append(index)
    lengths = list(map(len, columns.texts))
    for indexes in chains.values():
        for _, stretch in groupby(indexes, key=lengths.__getitem__):
            yield list(stretch)
