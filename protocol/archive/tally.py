"""Counts of blocks, chains and lanes: the writer builds its manifest from them, a reader checks the manifest."""

import operator
from collections import Counter
from collections.abc import Iterable, Sequence

from protocol.archive.errors import CorruptArchive
from protocol.archive.manifest import BlockEntry, ChainEntry, LaneEntry, Manifest
from protocol.archive.records import Columns
from protocol.devicelog.entry import LogEntry
from protocol.losses import Loss
from protocol.reference import Reference


class Tally:
    """Counts by whole columns where it can: loops over records would take longer than their compression."""

    def __init__(self) -> None:
        self.blocks: list[BlockEntry] = []
        self.records = 0
        self.raw_bytes = 0  # decompressed
        self._chain_records: Counter[str] = Counter()
        self._chain_readings: Counter[str] = Counter()
        self._chain_first: dict[str, tuple[int, int]] = {}
        self._chain_last: dict[str, tuple[int, int]] = {}
        self._lane_records: Counter[int] = Counter()
        self._lane_readings: Counter[int] = Counter()
        self._lane_first: dict[int, int] = {}
        self.reached: dict[int, int] = {}  # lane → the next position, after its last record

    def add_block(self, entry: BlockEntry, columns: Columns) -> None:
        """Raises: CorruptArchive, naming the record whose position does not come after its lane's last."""
        self._advance_lanes(columns.lanes, columns.positions, columns.readings)
        chains = columns.chains
        references = list(zip(columns.timestamps_ms, columns.sequences, strict=True))
        firsts = dict(zip(reversed(chains), reversed(references), strict=True))  # the earliest is set last
        for chain in dict.fromkeys(chains):
            self._chain_first.setdefault(chain, firsts[chain])
        self._chain_last.update(zip(chains, references, strict=True))
        alike = Counter(zip(chains, columns.lanes, columns.readings, strict=True))
        for (chain, lane, readings), records in alike.items():
            self._chain_records[chain] += records
            self._chain_readings[chain] += records * readings
            self._lane_records[lane] += records
            self._lane_readings[lane] += records * readings
        self.blocks.append(entry)
        self.records += entry.records
        self.raw_bytes += entry.raw_bytes

    def _advance_lanes(self, lanes: Sequence[int], positions: Sequence[int], readings: Sequence[int]) -> None:
        reached, ends = self.reached, map(operator.add, positions, readings)
        for lane in set(lanes).difference(reached):
            self._lane_first[lane] = positions[lanes.index(lane)]
        for record, (lane, position, end) in enumerate(zip(lanes, positions, ends, strict=True)):
            if position < reached.get(lane, 0):
                before = reached[lane] - 1
                raise CorruptArchive(f"position {position} of lane {lane} is not after {before}", record=record)
            reached[lane] = end

    @property
    def chains(self) -> int:
        return len(self._chain_first)

    @property
    def lanes(self) -> tuple[LaneEntry, ...]:
        return tuple(
            LaneEntry(lane, self._lane_records[lane], self._lane_readings[lane], first, self.reached[lane] - 1)
            for lane, first in sorted(self._lane_first.items())
        )

    def manifest(self, header_sha256: bytes, entry: LogEntry, losses: Iterable[Loss]) -> Manifest:
        return Manifest(
            header_sha256=header_sha256,
            entry=entry,
            blocks=tuple(self.blocks),
            chains=tuple(
                ChainEntry(
                    chain,
                    self._chain_records[chain],
                    self._chain_readings[chain],
                    Reference(*first),
                    Reference(*self._chain_last[chain]),
                )
                for chain, first in self._chain_first.items()
            ),
            lanes=self.lanes,
            losses=tuple(losses),
        )
