"""The running account of what went by, kept by the writer for its manifest and by a reader to check the manifest."""

from collections import Counter
from itertools import chain as chained
from operator import le

from protocol.archive.errors import CorruptArchive
from protocol.archive.manifest import BlockEntry, ChainEntry, LaneEntry, Manifest
from protocol.archive.records import Loss, Record, Reference


class Tally:
    """Counts by whole blocks with dictionaries built at C speed: a loop per record would cost more than compression."""

    def __init__(self) -> None:
        self.blocks: list[BlockEntry] = []
        self.losses: list[Loss] = []
        self.records = 0
        self.raw_bytes = 0  # decompressed
        self._chain_records: Counter[str] = Counter()
        self._chain_first: dict[str, Reference] = {}
        self._chain_last: dict[str, Reference] = {}
        self._lane_records: Counter[int] = Counter()
        self._lane_first: dict[int, int] = {}
        self._lane_last: dict[int, int] = {}
        self._last_record_position: dict[int, int] = {}

    def add_block(self, entry: BlockEntry, records: list[Record]) -> None:
        """Raises: CorruptArchive, naming the record whose position does not come after its lane's last."""
        _, chains, timestamps, sequences, lanes, positions, _ = zip(*records, strict=True)
        for lane in set(lanes):
            of_lane = [position for each, position in zip(lanes, positions, strict=True) if each == lane]
            self._check_order(lane, of_lane, positions)
            self._widen_lane(lane, of_lane[0], of_lane[-1])
            self._last_record_position[lane] = of_lane[-1]
        references = list(map(Reference, timestamps, sequences))
        firsts = dict(
            zip(reversed(chains), reversed(references), strict=True)
        )  # the earliest is written last, and stays
        for chain in dict.fromkeys(chains):
            self._chain_first.setdefault(chain, firsts[chain])
        self._chain_last.update(zip(chains, references, strict=True))
        self._chain_records.update(chains)
        self._lane_records.update(lanes)
        self.blocks.append(entry)
        self.records += entry.records
        self.raw_bytes += entry.raw_bytes

    def _check_order(self, lane: int, of_lane: list[int], positions: tuple[int, ...]) -> None:
        before = chained((self._last_record_position.get(lane, -1),), of_lane)
        if any(map(le, of_lane, before)):
            last = self._last_record_position.get(lane, -1)
            for position in of_lane:
                if position <= last:
                    raise CorruptArchive(
                        f"position {position} of lane {lane} does not come after {last}",
                        record=positions.index(position),
                    )
                last = position

    def _widen_lane(self, lane: int, first: int, last: int) -> None:
        self._lane_first[lane] = min(first, self._lane_first.get(lane, first))
        self._lane_last[lane] = max(last, self._lane_last.get(lane, last))

    def add_loss(self, loss: Loss) -> None:
        """Its position may be anywhere: losses stand apart from the records, in the manifest."""
        self.losses.append(loss)
        self._widen_lane(loss.lane, loss.position, loss.position)

    def manifest(self, header_sha256: bytes) -> Manifest:
        return Manifest(
            header_sha256=header_sha256,
            blocks=tuple(self.blocks),
            chains=tuple(
                ChainEntry(chain, self._chain_records[chain], first, self._chain_last[chain])
                for chain, first in self._chain_first.items()
            ),
            lanes=tuple(
                LaneEntry(lane, self._lane_records[lane], first, self._lane_last[lane])
                for lane, first in sorted(self._lane_first.items())
            ),
            losses=tuple(self.losses),
        )
