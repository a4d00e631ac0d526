"""Entries that wait for the next commit, checked when they come in: by whole columns, since this is the hot path."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from agent.errors import StorageError
from agent.journal.layout import fits_one_block, split_into_blocks
from agent.journal.records import MAX_CHAIN_BYTES, MAX_LANES, Entry
from agent.journal.settings import JournalSettings
from protocol.reference import MAX_SEQUENCE, MAX_TIMESTAMP_MS


@dataclass(slots=True)
class PendingLane:
    entries: list[Entry] = field(default_factory=list)
    payload_bytes: int = 0
    chains: set[str] = field(default_factory=set)


class Pending:
    def __init__(self, settings: JournalSettings) -> None:
        self._settings = settings
        self._since_ms: int | None = None
        self.lanes: dict[int, PendingLane] = {}

    @property
    def payload_bytes(self) -> int:
        return sum(lane.payload_bytes for lane in self.lanes.values())

    @property
    def records(self) -> int:
        return sum(len(lane.entries) for lane in self.lanes.values())

    def count(self, lane: int) -> int:
        return len(self.lanes[lane].entries) if lane in self.lanes else 0

    def add(self, lane: int, entries: Sequence[Entry], now_ms: int) -> None:
        """Raises: ValueError if any entry is not to be kept, StorageError if too much waits already."""
        payload_bytes, chains = self._check(lane, entries)
        waiting_bytes = self.payload_bytes
        if waiting_bytes and waiting_bytes + payload_bytes > self._settings.max_pending_bytes:
            raise StorageError(f"{waiting_bytes} bytes wait to be committed; no room for {payload_bytes} more")
        waiting = self.lanes.setdefault(lane, PendingLane())
        waiting.entries.extend(entries)
        waiting.payload_bytes += payload_bytes
        waiting.chains |= chains
        if self._since_ms is None:
            self._since_ms = now_ms

    def is_due(self, now_ms: int) -> bool:
        """Whether the bounds on size or time ask for a commit. A clock that was set back is not waited for."""
        if self._since_ms is None:
            return False
        settings = self._settings
        if self.records >= settings.commit_records or self.payload_bytes >= settings.commit_bytes:
            return True
        return not 0 <= now_ms - self._since_ms < settings.commit_interval_ms

    def next_part(self, lane: int) -> tuple[Sequence[Entry], int]:
        """The entries of the lane's next block, and the bytes of their payloads."""
        waiting, max_body_bytes = self.lanes[lane], self._settings.max_body_bytes
        if fits_one_block(len(waiting.entries), waiting.payload_bytes, waiting.chains, max_body_bytes):
            return waiting.entries, waiting.payload_bytes
        part = next(split_into_blocks(waiting.entries, max_body_bytes))
        return part, sum([len(entry[0]) for entry in part])

    def drop(self, lane: int, records: int, payload_bytes: int) -> None:
        """The first so many entries of the lane are dealt with."""
        waiting = self.lanes[lane]
        if records < len(waiting.entries):
            del waiting.entries[:records]
            waiting.payload_bytes -= payload_bytes
            return
        del self.lanes[lane]
        if not self.lanes:
            self._since_ms = None

    def _check(self, lane: int, entries: Sequence[Entry]) -> tuple[int, set[str]]:
        """The size of all payloads, and their chains."""
        if not 0 <= lane < MAX_LANES:
            raise ValueError(f"lane {lane} is not in 0 to {MAX_LANES - 1}")
        payloads, all_chains, timestamps_ms, sequences = zip(*entries, strict=True)
        sizes = list(map(len, payloads))
        _check_range("payload bytes", 0, max(sizes), self._settings.max_payload_bytes)
        different_ms, chains = set(timestamps_ms), set(all_chains)  # few, as a rule
        _check_range("timestamp_ms", min(different_ms), max(different_ms), MAX_TIMESTAMP_MS)
        _check_range("sequence", min(sequences), max(sequences), MAX_SEQUENCE)
        for chain in chains:
            if not chain.isprintable() or not 0 < len(chain.encode()) <= MAX_CHAIN_BYTES:
                raise ValueError(f"chain {chain!r} is not 1 to {MAX_CHAIN_BYTES} bytes of printable text")
        return sum(sizes), chains


def _check_range(name: str, least: int, most: int, limit: int) -> None:
    if least < 0 or most > limit:
        raise ValueError(f"{name} {least if least < 0 else most} is not in 0 to {limit}")
