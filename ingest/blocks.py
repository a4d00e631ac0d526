"""Decode the records of neighbouring blocks: whole runs where a chain is one, the others one by one."""

from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from typing import Any, Final, NamedTuple

from ingest.decoded import LINKED, UNLINKED
from ingest.keyring import Keyring
from ingest.many_readings import ManyReadings
from ingest.quick import QuickReader
from ingest.reasons import Quarantined
from ingest.records import decode_record
from ingest.runs import MIN_RUN, Run, join_runs, lay_out_run
from ingest.walk import Walk
from protocol.archive.block import Block
from protocol.archive.manifest import BlockEntry
from protocol.archive.random_access import OpenArchive
from protocol.archive.records import Columns, Record
from protocol.errors import WireError

MAX_BYTES_TOGETHER: Final = 8 * 1024 * 1024  # of texts; the block that reaches it is the last
MAX_READINGS_TOGETHER: Final = 65_536  # only tiny ones are so many; the record that reaches it is the last


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
    """One, or none, or several if they have many readings."""
    if blocks:
        parts = zip(*(block.columns for block in blocks), strict=True)
        columns = Columns(*(list(chain.from_iterable(column)) for column in parts))
        for start, end in _bounded(columns.readings):
            yield Neighbours(blocks[0].first_record + start, Columns._make(column[start:end] for column in columns))


def _bounded(readings: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Where stretches of records begin and end that have no more readings than are decoded together."""
    start = total = 0
    for index, count in enumerate(readings):
        total += count
        if total >= MAX_READINGS_TOGETHER:
            yield start, index + 1
            start, total = index + 1, 0
    if start < len(readings):
        yield start, len(readings)


class DecodedBlocks(NamedTuple):
    """What neighbouring blocks hold. Each of their records is in one of these."""

    columns: list[dict[str, Any]]  # of many rows each, by name
    rows: list[tuple[Any, ...]]
    links: list[str]  # of `rows`
    rejected: list[tuple[int, Record, Quarantined]]


class BlockDecoder:
    """Decodes the blocks of one archive in their order, and notes in the walk what they hold."""

    def __init__(self, device: str, walk: Walk, keyring: Keyring, quick: QuickReader) -> None:
        self._device = device
        self._walk = walk
        self._keyring = keyring
        self._quick = quick

    def decode(self, blocks: Neighbours) -> DecodedBlocks:
        """Read runs, then all other usual messages together; then walk through each chain in its order."""
        stretches = [(stretch, self._read_run(stretch, blocks)) for stretch in _stretches(blocks.columns)]
        others = _Usual(self._quick, blocks, [index for stretch, run in stretches if run is None for index in stretch])
        done = DecodedBlocks([], [], [], [])
        runs: list[tuple[Run, str]] = []
        for stretch, run in stretches:
            link = None if run is None else self._take_run(run, stretch, blocks)
            if run is not None and link is not None:
                runs.append((run, link))
            else:
                for index in stretch:
                    self._take(index, blocks, others, done)
        done.columns.extend([join_runs(runs)] if runs else [])
        others.lay_out(done)
        return done

    def _read_run(self, indexes: list[int], blocks: Neighbours) -> Run | None:
        """These records of one chain, if they are a perfect run."""
        head = self._quick.parse(blocks.columns.record(indexes[0])) if len(indexes) >= MIN_RUN else None
        if head is None or head.is_pack:
            return None
        numbers = [blocks.first_record + index for index in indexes]
        return lay_out_run(head, numbers, blocks.columns.at(indexes), self._quick.verify)

    def _take_run(self, run: Run, indexes: list[int], blocks: Neighbours) -> str | None:
        """How its first reading is linked; None if it does not belong into the chain."""
        last_place = blocks.columns.positions[indexes[-1]]
        link = self._walk.take(blocks.columns.record(indexes[0]), run.decoded, last_place)
        return None if isinstance(link, Quarantined) else link

    def _take(self, index: int, blocks: Neighbours, others: "_Usual", done: DecodedBlocks) -> None:
        record, number = others.records.get(index) or blocks.columns.record(index), blocks.first_record + index
        try:
            decoded = others.decoded.get(index) or decode_record(record, number, self._device, self._keyring)
        except Quarantined as problem:
            self._reject(record, number, problem, done)
            return
        link = self._walk.take(record, decoded)
        if isinstance(link, Quarantined):
            self._reject(record, number, link, done)
            return
        others.links[index] = link
        later = UNLINKED if decoded.link is None else LINKED
        done.rows.extend(decoded.rows)
        done.links.extend([link, *[later] * (decoded.readings - 1)] if decoded.rows else [])

    def _reject(self, record: Record, number: int, problem: Quarantined, done: DecodedBlocks) -> None:
        done.rejected.append((number, record, problem))
        self._walk.reject(record)


class _Usual:
    """The usual messages among some records of blocks, and how they are linked."""

    def __init__(self, quick: QuickReader, blocks: Neighbours, indexes: list[int]) -> None:
        records = blocks.columns.at(indexes).records() if indexes else []
        self.records = dict(zip(indexes, records, strict=True))
        found = quick.read(records, [blocks.first_record + index for index in indexes])
        usual = {index: message for index, message in zip(indexes, found, strict=True) if message is not None}
        self._readings = ManyReadings(list(usual.values())) if usual else None
        decoded = self._readings.decoded() if self._readings else []
        self._indexes = list(usual)
        self.decoded = dict(zip(self._indexes, decoded, strict=True))
        self.links: dict[int, str] = {}  # of those that belong into their chains

    def lay_out(self, done: DecodedBlocks) -> None:
        if self._readings is None:
            return
        words = [self.links.get(index, "") if self.decoded[index] else "" for index in self._indexes]
        columns, rows, links = self._readings.lay_out(words)
        done.columns.extend([columns] if columns else [])
        done.rows.extend(rows)
        done.links.extend(links)


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
