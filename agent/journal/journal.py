"""The journal: append, commit, cursors, and shedding when it is full."""

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from agent.errors import StorageError
from agent.journal.cursor import Cursor
from agent.journal.disk import Disk
from agent.journal.lane import Lane
from agent.journal.layout import PAGE_BYTES, Place, encode_block, fits_one_block, split_into_blocks
from agent.journal.losses import PendingLoss
from agent.journal.records import (
    MAX_CHAIN_BYTES,
    MAX_LANES,
    MAX_POSITION,
    MAX_RECORD_READINGS,
    Entry,
    LossTally,
    Record,
    loss_of,
    positions_from,
)
from agent.journal.segments import file_name
from agent.journal.settings import JournalSettings
from agent.journal.shedding import shed_for
from agent.journal.stats import JournalStats, counts_of, cursor_stats, lane_stats
from agent.journal.store import Store
from protocol.losses import Cause
from protocol.reference import MAX_SEQUENCE, MAX_TIMESTAMP_MS


class Journal:
    """Opens the journal on the disk, or begins a new one. Call it, and its cursors, from one thread at a time.

    `now_ms` is the wall clock; it dates blocks, and may jump without harm.
    """

    def __init__(self, disk: Disk, settings: JournalSettings, *, new_journal_id: int, now_ms: int) -> None:
        """`new_journal_id`: 64 random bits for a journal that begins here. Raises: OSError if nothing can be read."""
        self._disk = disk
        self._settings = settings
        self._store = Store(disk, settings, new_journal_id)
        self._cursors = {name: Cursor(self._store, name) for name in settings.cursors}
        self._pending = Pending(settings)
        self._saved_at_ms = now_ms
        self._store.finish_opening(now_ms)
        self._shrink_to_cap(now_ms)

    # Writing

    def append(self, lane: int, entry: Entry) -> int:
        """Append an entry and return the position of its first reading. Raises: StorageError.

        It is durable when `commit` has returned.
        """
        return self.append_many(lane, [entry])[0]

    def append_many(self, lane: int, entries: Sequence[Entry]) -> list[int]:
        """Append entries and return the position of the first reading of each.

        Raises: StorageError if too much waits for `commit` already.

        Raises ValueError, and appends none of them, if any entry is beyond the journal's limits.
        """
        if not entries:
            return []
        first = self._store.lane(lane).next_position + self._pending.readings(lane)
        self._pending.add(lane, entries)
        return positions_from(first, [entry.readings for entry in entries[:-1]])

    def tick(self, now_ms: int) -> None:
        """Save positions if it is time to. Raises: StorageError."""
        self._store.settle()
        self._save_if_due(now_ms)

    def commit(self, now_ms: int) -> None:
        """Return when everything appended is on the medium, or is recorded there as lost because the journal is full.

        Raises: StorageError; what is not on the medium then still waits, and the next commit tries again elsewhere.
        """
        self._store.settle()
        for number in sorted(self._pending.lanes):
            while number in self._pending.lanes:
                self._commit_part(self._store.lane(number), now_ms)
        if self._store.is_vital_unsaved:
            self._store.save(now_ms)
        self._save_if_due(now_ms)

    def close(self, now_ms: int) -> None:
        """Commit, save the positions, close the disk. Raises: StorageError."""
        try:
            self.commit(now_ms)
            self._store.save(now_ms)
        finally:
            self._disk.close()

    def advance_to(self, lane: int, position: int, now_ms: int) -> None:
        """Give the lane's next entry this position or a later one. What is passed over is recorded as damaged.

        For positions that were used once, as others know, and that the journal lost. All is durable on return.
        Raises: StorageError, or ValueError if lane or position is beyond the journal's limits.
        """
        _check_range("lane", lane, lane, MAX_LANES - 1)
        _check_range("position", position, position, MAX_POSITION // 2)  # half of them are left
        self.commit(now_ms)
        self._store.pass_over(self._store.lane(lane), position)
        self.commit(now_ms)

    # Reading

    @property
    def settings(self) -> JournalSettings:
        return self._settings

    def cursor(self, name: str) -> Cursor:
        """One of the cursors named in the settings."""
        return self._cursors[name]

    def durable_position(self, lane: int) -> int:
        """Below this, everything of the lane is on the medium."""
        return self._store.lane(lane).durable_position

    def pending_losses(self) -> tuple[PendingLoss, ...]:
        """Losses to be reported, at least once each: put a message into the journal, commit, then acknowledge.

        Not all at once: further ones come when these are acknowledged. A loss is marked as reported on the medium
        before it is returned here, because from then on it must not be joined with others.
        """
        return self._store.reported_losses()

    def acknowledge_loss(self, number: int) -> None:
        self._store.losses.acknowledge(number)
        self._store.is_unsaved = True

    def record_refused(self, records: Iterable[Record], cursor: str, now_ms: int) -> None:
        """Record as lost what a reader acknowledged and dropped later. Durable on return; a repetition changes nothing.

        Raises: StorageError.
        """
        tallies: dict[int, LossTally] = {}
        for record in sorted(records):
            tallies.setdefault(record.lane, LossTally(Cause.REFUSED)).add(loss_of(record, Cause.REFUSED))
        known = {replace(pending.loss, number=0) for pending in self._store.losses.pending()}
        losses = [loss for tally in tallies.values() for loss in tally.losses() if loss not in known]
        self._store.losses.record(losses, (cursor,))
        self._store.is_vital_unsaved = True
        self._store.save(now_ms)

    def stats(self, now_ms: int) -> JournalStats:
        store = self._store
        readers = {number: store.reader(lane) for number, lane in store.lanes.items()}
        return JournalStats(
            lanes={number: lane_stats(lane) for number, lane in sorted(store.lanes.items())},
            cursors={name: cursor_stats(readers, places, now_ms) for name, places in store.places.items()},
            pending_losses=len(store.losses.pending()),
            **counts_of(store.totals),
            bytes_on_disk=store.pool.bytes_on_disk + 2 * self._settings.state_bytes,
            max_bytes=self._settings.max_bytes,
            free_bytes=self._free_bytes(),
            commits_per_s=store.commit_rate.per_s(now_ms),
            written_bytes_per_s=store.byte_rate.per_s(now_ms),
            card_endurance_bytes=self._settings.card_endurance_bytes,
        )

    # Inside

    def _free_bytes(self) -> int:
        """The space for records before anything is lost, by the cap and by the disk."""
        store = self._store
        used_bytes = sum(lane.used_bytes(store.pool.pages) for lane in store.lanes.values())
        by_cap = self._settings.free_bytes(len(store.lanes), used_bytes)
        return max(0, by_cap - store.pool.disk_shortfall_bytes)

    def _commit_part(self, lane: Lane, now_ms: int) -> None:
        part = self._pending.next_part(lane.number)
        if self._commit_block(lane, part.entries, now_ms):
            self._store.count_commit(len(part.entries), part.readings, part.payload_bytes)
        else:
            self._refuse(lane, part.entries, now_ms)
        lane.next_position += part.readings
        self._pending.drop(lane.number, part)

    def _commit_block(self, lane: Lane, entries: Sequence[Entry], now_ms: int) -> bool:
        """False if the only space left is that of more important records."""
        block = self._encode(lane, entries, now_ms)
        if block is None and self._begin_segment(lane, now_ms):
            block = self._encode(lane, entries, now_ms)
        if block is None:
            return False
        self._write(lane, block)
        return True

    def _encode(self, lane: Lane, entries: Sequence[Entry], now_ms: int) -> bytes | None:
        """The block for the segment being written, or None if it does not fit there."""
        if lane.write_page is None:
            return None
        store, segment = self._store, lane.segments[-1]
        place = Place(store.journal_id, segment.id, lane.number, lane.write_page, max(0, now_ms), segment.left_out)
        block = encode_block(place, lane.next_position, entries, store.compress)
        return block if lane.write_page + len(block) // PAGE_BYTES <= store.pool.pages[segment.file] else None

    def _write(self, lane: Lane, block: bytes) -> None:
        assert lane.write_page is not None
        name = file_name(lane.segments[-1].file)
        try:
            self._disk.write(name, lane.write_page * PAGE_BYTES, block)
            self._disk.sync(name)
        except OSError as error:
            self._abandon_segment(lane)
            raise StorageError(f"{name}: commit failed: {error.strerror or error}") from error
        lane.write_page += len(block) // PAGE_BYTES
        self._store.totals.written_bytes += len(block)
        self._store.byte_rate.add(len(block))

    def _abandon_segment(self, lane: Lane) -> None:
        """After a failed sync the content of the medium is unknown: never write behind it; repeat the block elsewhere.

        A segment that is still empty is released, or a disk that fails for long would cost one more at each attempt.
        """
        if lane.write_page == 0:
            self._store.remove_segment(lane, len(lane.segments) - 1)
        lane.write_page = None

    def _begin_segment(self, lane: Lane, now_ms: int) -> bool:
        """Begin a new segment, and shed records for it if necessary. False if all stored records are more important."""
        lane.write_page = None
        self._store.release(lane)
        try:
            while (file := self._store.pool.take()) is None:
                if self._settings.when_full == "stop_reading":
                    raise StorageError("the journal is full; it continues when a destination has acknowledged messages")
                if not any(each.segments for each in self._store.lanes.values()):
                    raise StorageError("the disk has no space for a single segment; free some disk space")
                if not shed_for(self._store, lane.number, now_ms):
                    return False
        except OSError as error:
            raise StorageError(f"cannot create a segment: {error.strerror or error}") from error
        self._store.add_segment(lane, file, now_ms)
        return True

    def _refuse(self, lane: Lane, entries: Sequence[Entry], now_ms: int) -> None:
        """Record what cannot be stored as lost; the state is saved before `commit` returns."""
        positions = positions_from(lane.next_position, [entry.readings for entry in entries[:-1]])
        tally = LossTally(Cause.JOURNAL_FULL)
        tally.add_records(
            Record(position, lane.number, *entry[:-1], now_ms, entry.readings)
            for position, entry in zip(positions, entries, strict=True)
        )
        self._store.give_up(lane, tally.losses())

    def _shrink_to_cap(self, now_ms: int) -> None:
        """Shed down to the cap, which may be lower than in the last run. A failing disk is reported on commit."""
        with contextlib.suppress(OSError, StorageError):
            self._store.settle()
            while self._store.pool.is_over_cap and shed_for(self._store, 0, now_ms):
                self._store.save(now_ms)

    def _save_if_due(self, now_ms: int) -> None:
        waited_ms = now_ms - self._saved_at_ms
        if self._store.is_unsaved and not 0 <= waited_ms < self._settings.positions_interval_ms:
            self._store.save(now_ms)
            self._saved_at_ms = now_ms


@dataclass(slots=True)
class PendingLane:
    entries: list[Entry] = field(default_factory=list)
    readings: int = 0
    payload_bytes: int = 0
    chains: set[str] = field(default_factory=set)


class Part(NamedTuple):
    """The entries of a lane's next block, and their readings and bytes of payload."""

    entries: Sequence[Entry]
    readings: int
    payload_bytes: int


class Pending:
    def __init__(self, settings: JournalSettings) -> None:
        self._settings = settings
        self.lanes: dict[int, PendingLane] = {}

    @property
    def payload_bytes(self) -> int:
        return sum(lane.payload_bytes for lane in self.lanes.values())

    def readings(self, lane: int) -> int:
        return self.lanes[lane].readings if lane in self.lanes else 0

    def add(self, lane: int, entries: Sequence[Entry]) -> None:
        """Raises: ValueError if any entry is beyond the limits, StorageError if too much waits already."""
        readings, payload_bytes, chains = self._check(lane, entries)
        waiting_bytes = self.payload_bytes
        if waiting_bytes and waiting_bytes + payload_bytes > self._settings.max_pending_bytes:
            raise StorageError(f"{waiting_bytes} bytes wait to be committed; no space for {payload_bytes} more")
        waiting = self.lanes.setdefault(lane, PendingLane())
        waiting.entries.extend(entries)
        waiting.readings += readings
        waiting.payload_bytes += payload_bytes
        waiting.chains |= chains

    def next_part(self, lane: int) -> Part:
        waiting, max_body_bytes = self.lanes[lane], self._settings.max_body_bytes
        counts = waiting.readings, waiting.payload_bytes
        if fits_one_block(len(waiting.entries), *counts, waiting.chains, max_body_bytes):
            return Part(waiting.entries, *counts)
        part = next(split_into_blocks(waiting.entries, max_body_bytes))
        return Part(part, sum([entry.readings for entry in part]), sum([len(entry.payload) for entry in part]))

    def drop(self, lane: int, part: Part) -> None:
        """Remove the lane's first entries: they are committed or recorded as lost."""
        waiting = self.lanes[lane]
        if len(part.entries) < len(waiting.entries):
            del waiting.entries[: len(part.entries)]
            waiting.readings -= part.readings
            waiting.payload_bytes -= part.payload_bytes
            return
        del self.lanes[lane]

    def _check(self, lane: int, entries: Sequence[Entry]) -> tuple[int, int, set[str]]:
        """The number of readings, the size of all payloads, and their chains."""
        _check_range("lane", lane, lane, MAX_LANES - 1)
        payloads, all_chains, timestamps_ms, sequences, readings = zip(*entries, strict=True)
        sizes = list(map(len, payloads))
        _check_range("payload bytes", max(sizes), max(sizes), self._settings.max_payload_bytes)
        _check_range("readings", min(readings), max(readings), MAX_RECORD_READINGS, lowest=1)
        different_ms, chains = set(timestamps_ms), set(all_chains)  # few, as a rule
        _check_range("timestamp_ms", min(different_ms), max(different_ms), MAX_TIMESTAMP_MS)
        _check_range("sequence", min(sequences), max(sequences), MAX_SEQUENCE)
        for chain in chains:
            if not chain.isprintable() or not 0 < len(chain.encode()) <= MAX_CHAIN_BYTES:
                raise ValueError(f"chain {chain!r} is not 1 to {MAX_CHAIN_BYTES} bytes of printable text")
        return sum(readings), sum(sizes), chains


def _check_range(name: str, least: int, most: int, limit: int, lowest: int = 0) -> None:
    if least < lowest or most > limit:
        raise ValueError(f"{name} {least if least < lowest else most} is not in {lowest} to {limit}")
