"""Counts of blocks, chains and lanes: the writer builds its manifest from them, a reader checks the manifest."""

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
        self._lane_last: dict[int, int] = {}

    def add_block(self, entry: BlockEntry, columns: Columns) -> None:
        """Raises: CorruptArchive, naming the record whose position does not come after its lane's last."""
        self._advance_lanes(columns.lanes, columns.positions, columns.readings)
        chains = columns.chains
        references = list(zip(columns.timestamps_ms, columns.sequences, strict=True))
        firsts = dict(zip(reversed(chains), reversed(references), strict=True))  # the earliest is set last
        for chain in dict.fromkeys(chains):
            self._chain_first.setdefault(chain, firsts[chain])
        self._chain_last.update(zip(chains, references, strict=True))
        self._chain_records.update(chains)
        for chain, count in zip(chains, columns.readings, strict=True):
            self._chain_readings[chain] += count
        self._lane_records.update(columns.lanes)
        self.blocks.append(entry)
        self.records += entry.records
        self.raw_bytes += entry.raw_bytes

    def _advance_lanes(self, lanes: Sequence[int], positions: Sequence[int], readings: Sequence[int]) -> None:
        last, counts = self._lane_last, self._lane_readings
        for record, (lane, position, count) in enumerate(zip(lanes, positions, readings, strict=True)):
            before = last.get(lane, -1)
            if position <= before:
                raise CorruptArchive(f"position {position} of lane {lane} is not after {before}", record=record)
            last[lane] = position + count - 1
            counts[lane] += count
            if before < 0:
                self._lane_first[lane] = position

    @property
    def chains(self) -> int:
        return len(self._chain_first)

    @property
    def lanes(self) -> tuple[LaneEntry, ...]:
        return tuple(
            LaneEntry(lane, self._lane_records[lane], self._lane_readings[lane], first, self._lane_last[lane])
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
