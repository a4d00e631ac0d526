"""A long random life of a journal, with the power cut before every single operation of its disk.

Beside the journal runs an oracle that knows what was appended, committed and acknowledged. Before each operation that
would change the disk, a disk as it may be found after losing power right then is opened with the same code and held
against the oracle. Now and then such a disk, or one left by a killed process, becomes the present, and life goes on.
"""

import itertools
import random
from collections import defaultdict
from dataclasses import dataclass, field

from agent.journal import Entry, Journal, JournalSettings, PendingLoss, Record
from agent.journal.state import STATE_NAMES
from protocol.losses import Cause
from tests.support.journal_account import Account, check_losses, positions_of
from tests.support.simulated_disk import SimulatedDisk

CURSORS = ("publisher", "archiver")
LANES = (0, 3, 7)
CHAINS = ("thermometer", "barometer", "door")
SEGMENT_BYTES = 5 * 4096
SEGMENTS = 7


class PowerLossError(Exception):
    pass


class KilledError(Exception):
    pass


@dataclass
class Oracle:
    appended: dict[int, dict[int, Entry]] = field(default_factory=lambda: defaultdict(dict))
    committed: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    acknowledged: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))
    reported: dict[int, PendingLoss] = field(default_factory=dict)  # gaps that were acknowledged
    account: Account = field(default_factory=lambda: Account(CURSORS))
    sequence: int = 0


def random_settings(chance: random.Random) -> JournalSettings:
    sizes = JournalSettings(segment_bytes=SEGMENT_BYTES, max_bytes=1 << 20)
    return JournalSettings(
        segment_bytes=SEGMENT_BYTES,
        max_bytes=2 * sizes.state_bytes + SEGMENTS * SEGMENT_BYTES,
        compression=chance.choice(("zstd", "none")),
        thinned_lanes=chance.choice((frozenset(), frozenset({7}), frozenset({3, 7}))),
        cursors=CURSORS,
        positions_interval_ms=chance.choice((0, 1000)),
        spare_segments=chance.choice((1, 4)),
    )


class History:
    """One seed, one life. `cuts` counts the power losses tried; only those that stay are, if `cut` is False."""

    def __init__(self, seed: int, *, cut: bool = True) -> None:
        self.cut = cut
        self.chance = random.Random(seed)
        self.settings = random_settings(self.chance)
        self.weights = self.chance.choice(((1, 1, 1), (1, 3, 6), (6, 3, 1)))
        self.oracle = Oracle()
        self.disk = SimulatedDisk()
        self.now_ms = 1_700_000_000_000
        self.cuts = 0
        self.seen: set[str] = set()  # what happened in this life
        self._open(self.disk)

    def live_until(self, cuts: int) -> None:
        while self.cuts < cuts:
            self.live(steps=10)

    def live(self, steps: int) -> None:
        often = [self._append, self._append, self._commit, self._commit, self._read, self._report_losses, self._tick]
        actions = [*often * 4, self._restart]
        for _ in range(steps):
            try:
                self.chance.choice(actions)()
            except PowerLossError:
                self.seen.add("power loss")
                self._go_on_with(self.disk.after_power_loss(self.chance))
            except KilledError:
                self.seen.add("kill")
                self._go_on_with(self.disk.after_kill())
            assert self.disk.used_bytes <= self.settings.max_bytes

    # What may happen

    def _append(self) -> None:
        lane = self.chance.choices(LANES, self.weights)[0]
        for _ in range(self.chance.choice((1, 2, 6))):
            self.oracle.sequence += 1
            payload = self.chance.randbytes(self.chance.choice((0, 100, 1500, 3000)))
            readings = self.chance.choice((1, 1, 2, 7, 40))
            entry = Entry(payload, self.chance.choice(CHAINS), self.now_ms, self.oracle.sequence, readings)
            position = self.journal.append(lane, entry)
            self.oracle.appended[lane][position] = entry

    def _commit(self) -> None:
        self.journal.commit(self.now_ms)
        self._note_committed()

    def _tick(self) -> None:
        self.now_ms += self.chance.choice((1, 500, 2000, -1000))
        self.journal.tick(self.now_ms)

    def _read(self) -> None:
        name = self.chance.choice(CURSORS)
        cursor = self.journal.cursor(name)
        if self.chance.random() < 0.2:
            cursor.rewind()
        for _ in range(self.chance.choice((1, 3, 10))):
            records = cursor.take(self.chance.choice((1, 7, 100)))
            if records and self.chance.random() < 0.8:
                cursor.acknowledge(records[0].lane, records[-1].next_position - 1)
                key = name, records[0].lane
                self.oracle.acknowledged[key] = max(self.oracle.acknowledged[key], records[-1].next_position)
                self.oracle.account.acknowledge(name, records)
            elif records:
                cursor.rewind()

    def _report_losses(self) -> None:
        for gap in self.journal.pending_losses():
            self.seen.add(str(gap.loss.cause))
            self.oracle.reported[gap.number] = gap
            self.journal.acknowledge_loss(gap.number)

    def _restart(self) -> None:
        self.journal.close(self.now_ms)
        self._note_committed()
        self._open(self.disk)

    # The oracle

    def _note_committed(self) -> None:
        for lane, entries in self.oracle.appended.items():
            self.oracle.committed[lane].update(entries)

    def _open(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        disk.before_each = self._cut_power
        self.is_open = False
        self.journal = Journal(disk, self.settings, new_journal_id=42, now_ms=self.now_ms)
        self.is_open = True

    def _cut_power(self) -> None:
        self.cuts += 1
        if self.cut:
            found = self.disk.after_power_loss(self.chance)
            stateless = found.after_kill() if self.chance.random() < 0.1 and self._is_settled() else None
            readable = self.check(found)
            if stateless is not None:
                self._check_without_state(stateless, readable)
        if self.chance.random() < 0.02 and self.is_open:
            raise self.chance.choice((PowerLossError, KilledError))

    def check(self, disk: SimulatedDisk) -> dict[int, list[Record]]:
        """Open the disk and hold it against the oracle. Gives what can be read, by lane."""
        journal = Journal(disk, self.settings, new_journal_id=43, now_ms=self.now_ms)
        assert disk.used_bytes <= self.settings.max_bytes
        stats = journal.stats(self.now_ms)
        if stats.torn_tails:
            self.seen.add("torn tail")
        if stats.written_bytes > self.settings.max_bytes:
            self.seen.add("reused file")
        journal.pending_losses()
        gaps = {gap.number: gap for gap in journal._store.losses.pending()}
        by_lane: dict[int, list[Record]] = {lane: [] for lane in LANES}
        cursors = [journal.cursor(name) for name in CURSORS]
        for lane in LANES:
            furthest_behind = min(cursors, key=lambda cursor: cursor.position(lane))
            while records := furthest_behind.take(1000, lane=lane):
                by_lane[lane].extend(records)
            for name in CURSORS:
                assert journal.cursor(name).position(lane) <= self.oracle.acknowledged[name, lane]
            self._check_lane(lane, by_lane[lane], list({**self.oracle.reported, **gaps}.values()))
            self._check_account(journal, lane, by_lane[lane], [*{**self.oracle.reported, **gaps}.values()])
        return by_lane

    def _check_account(self, journal: Journal, lane: int, records: list[Record], gaps: list[PendingLoss]) -> None:
        """Every position below the next one is delivered, readable or lost, and the losses add up."""
        stats = journal.stats(self.now_ms).lanes.get(lane)
        readable = {position for record in records for position in positions_of(record)}
        lost = self.oracle.account.lost(journal, lane, readable, stats.next_position if stats else 0)
        check_losses(lost, [gap for gap in gaps if gap.loss.lane == lane])

    def _is_settled(self) -> bool:
        """Whether no segment is being written: losing the state and the power at once is more than is promised."""
        return not any(file.unsynced for name, file in self.disk.files.items() if name not in STATE_NAMES)

    def _check_without_state(self, disk: SimulatedDisk, readable: dict[int, list[Record]]) -> None:
        """With both copies of the state gone, old records may come again, but none is skipped or invented."""
        for name in STATE_NAMES:
            disk.remove(name)
        journal = Journal(disk, self.settings, new_journal_id=44, now_ms=self.now_ms)
        for lane in LANES:
            records: list[Record] = []
            while taken := journal.cursor("archiver").take(1000, lane=lane):
                records += taken
            assert {record.position for record in readable[lane]} <= {record.position for record in records}
            assert all(record.entry == self.oracle.appended[lane].get(record.position) for record in records)

    def _check_lane(self, lane: int, records: list[Record], gaps: list[PendingLoss]) -> None:
        appended = self.oracle.appended[lane]
        assert all(before.next_position <= after.position for before, after in itertools.pairwise(records))
        assert all(record.entry == appended.get(record.position) for record in records), "a record was invented"
        assert all(record.lane == lane for record in records), "a record of another lane"
        readable = {record.position for record in records}
        wanted = min(self.oracle.acknowledged[name, lane] for name in CURSORS)
        missing = {position for position in self.oracle.committed[lane] if position >= wanted} - readable
        in_lane = [gap for gap in gaps if gap.loss.lane == lane]
        assert all(gap.loss.cause is not Cause.DAMAGED for gap in in_lane), "loss of power was taken for damage"
        unexplained = [position for position in missing if not _explained(position, appended[position], in_lane)]
        assert not unexplained, f"lane {lane}: {unexplained} were committed and are gone"
        for gap in in_lane:
            self._check_gap(gap, appended, readable)

    @staticmethod
    def _check_gap(gap: PendingLoss, appended: dict[int, Entry], readable: set[int]) -> None:
        """It tells no more than is gone."""
        span = range(gap.loss.first_position, gap.loss.last_position + 1)
        of_chain = [at for at in span if at in appended and gap.loss.chain in ("", appended[at].chain)]
        assert gap.loss.count <= sum(appended[at].readings for at in of_chain if at not in readable), gap

    def _go_on_with(self, disk: SimulatedDisk) -> None:
        """What was in flight and survived counts as committed from now on; what did not never happened."""
        survivors = self.check(disk.after_kill())
        self._open(disk)
        self.is_open = False  # no crash until the oracle knows what there is
        reported_again = {gap.number for gap in self.journal.pending_losses()}
        for lane in LANES:
            stats = self.journal.stats(self.now_ms).lanes.get(lane)
            next_position = stats.next_position if stats else 0
            readable = {record.position for record in survivors[lane]}
            oracle = self.oracle
            in_flight = set(oracle.appended[lane]) - oracle.committed[lane]
            lost_gaps = [gap for gap in self.journal.pending_losses() if gap.loss.lane == lane]
            for position in in_flight:
                entry = oracle.appended[lane][position]
                survived = position in readable or (position < next_position and _explained(position, entry, lost_gaps))
                if survived:
                    oracle.committed[lane].add(position)
                else:
                    del oracle.appended[lane][position]
            for name in CURSORS:
                oracle.acknowledged[name, lane] = self.journal.cursor(name).position(lane)
        self.oracle.account.go_back(self.journal)
        for number in reported_again:
            self.oracle.reported.pop(number, None)
        self.is_open = True


def _explained(position: int, entry: Entry, gaps: list[PendingLoss]) -> bool:
    last = position + entry.readings - 1
    return any(
        gap.loss.first_position <= position and last <= gap.loss.last_position and gap.loss.chain in ("", entry.chain)
        for gap in gaps
    )
