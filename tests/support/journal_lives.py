"""Many lives of one journal on one disk that fails: what `tests/support/journal_history.py` cuts, this lets go on.

Each life ends by a loss of power, a kill or a restart, at any operation of the disk, also within opening, thinning and
`repair`; what it leaves is where the next one begins. Between lives the settings change. Within a life syncs, writes
and reads fail, and the disk is smaller than the cap. After each opening the journal is held against an oracle:

- a record is what was appended at its position; no position is used for two records that were committed;
- what was committed, or found by an earlier life and so perhaps published, is there, or a gap covers it;
- no cursor is further than what was acknowledged to it;
- a number stands for one loss for ever, and the counts of distinct numbers are exactly the readings that are gone, of
  all positions below the next one; more only where a read failed for a while, or rot hides what was delivered before;
- nothing is taken for damage where nothing was damaged.
"""

import contextlib
import errno
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from unittest.mock import patch

from agent.errors import StorageError
from agent.journal import Entry, Journal, JournalSettings, PendingLoss, Record
from agent.journal.inspection import inspect_journal
from agent.journal.repair import repair
from agent.journal.segments import file_name
from protocol.losses import Cause
from tests.support.journal_account import Account, check_losses, positions_of
from tests.support.simulated_disk import SimulatedDisk

CURSORS = ("publisher", "archiver")
LANES = (0, 3, 7)
CHAINS = ("thermometer", "barometer", "door")
PAGE_BYTES = 4096
IS_REWRITTEN = 7  # the offset of this mark in a block
MAX_CRASHES_IN_A_ROW = 60
HARMS = ("faults", "reads", "settings", "sizes", "repair", "rot", "small disk", "receipts away", "maintenance", "room")


class PowerLossError(Exception):
    pass


class KilledError(Exception):
    pass


@dataclass
class Oracle:
    committed: dict[int, dict[int, Entry]] = field(default_factory=lambda: defaultdict(dict))
    in_flight: dict[int, dict[int, Entry]] = field(default_factory=lambda: defaultdict(dict))
    acknowledged: Counter[tuple[str, int]] = field(default_factory=Counter)
    reported: dict[int, PendingLoss] = field(default_factory=dict)  # every gap that anyone ever saw
    account: Account = field(default_factory=lambda: Account(CURSORS))
    sequence: int = 0


class JournalLives:
    """One seed. `harms`: what may happen, of `HARMS`; drawn if not given."""

    def __init__(self, seed: int, harms: frozenset[str] | None = None) -> None:
        self.chance = random.Random(seed)
        drawn = {harm for harm in HARMS if self.chance.random() < 0.4}
        self.harms = drawn if harms is None else harms
        self.oracle = Oracle()
        self.disk = SimulatedDisk()
        self.now_ms = 1_700_000_000_000
        self.seen: Counter[str] = Counter()
        self.is_damaged = False  # something was, or was passed over, so that gaps may say so
        self.is_misread = False  # a read failed that works again, so that gaps may say too much
        self.crash_in = 0  # operations; 0: never
        self._is_calm = True
        self.settings = self._draw_settings()
        if "small disk" in self.harms:
            self._squeeze()
        self._survive(self.open)

    def live(self, steps: int) -> None:
        often = [self.append, self.append, self.commit, self.commit, self.read, self._report_gaps, self._tick]
        actions = [*often * 6, self.restart, self.lose_power, self.advance]
        for _ in range(steps):
            self._plan_faults()
            self.crash_in = self.chance.randint(1, 15) if self.chance.random() < 0.04 else 0
            action = self.chance.choice(actions)
            try:
                action()
            except (PowerLossError, KilledError) as end:
                self.begin_next_life(end)
        self._calm_down()
        self.check()

    # What may happen

    def append(self, lane: int | None = None) -> None:
        lane = self.chance.choices(LANES, (1, 2, 5))[0] if lane is None else lane
        for _ in range(self.chance.choice((1, 3, 8))):
            self.oracle.sequence += 1
            sizes = (100, 300, 900) if "maintenance" in self.harms else (0, 300, 1500, 3000)
            payload = b"%d " % self.oracle.sequence + self.chance.randbytes(self.chance.choice(sizes))
            readings = self.chance.choice((1, 1, 2, 7, 40))
            entry = Entry(payload, self.chance.choice(CHAINS), self.now_ms, self.oracle.sequence, readings)
            position = self.journal.append(lane, entry)
            assert position not in self.oracle.committed[lane], "a position is used again"
            self.oracle.in_flight[lane][position] = entry

    def commit(self) -> None:
        try:
            self.journal.commit(self.now_ms)
        except StorageError:
            self.seen["commit refused"] += 1
            if self.chance.random() < 0.3:
                raise KilledError from None  # by an operator who sees the error, or a watchdog
            return
        self._note_committed()

    def advance(self) -> None:
        lane = self.chance.choice(LANES)
        position = self.journal.durable_position(lane) + self.chance.randint(-20, 60)
        self.is_damaged = True
        try:
            self.journal.advance_to(lane, max(0, position), self.now_ms)
        except StorageError:
            return
        self.seen["advance"] += 1
        self._note_committed()
        assert self.journal.durable_position(lane) >= position

    def _tick(self) -> None:
        self.now_ms += self.chance.choice((1, 500, 2000, -1000))
        with contextlib.suppress(StorageError):
            self.journal.tick(self.now_ms)

    def read(self) -> None:
        name = self.chance.choice(CURSORS)
        cursor = self.journal.cursor(name)
        if self.chance.random() < 0.2:
            cursor.rewind()
        for _ in range(self.chance.choice((1, 4))):
            records = cursor.take(self.chance.choice((1, 7, 100)))
            self._adopt(records)
            is_away = "receipts away" in self.harms and name == "archiver"
            if records and not is_away and self.chance.random() < 0.7:
                lane, next_position = records[0].lane, records[-1].next_position
                cursor.acknowledge(lane, next_position - 1)
                acknowledged = self.oracle.acknowledged
                acknowledged[name, lane] = max(acknowledged[name, lane], next_position)
                self.oracle.account.acknowledge(name, records)
            elif records:
                cursor.rewind()

    def _report_gaps(self) -> None:
        for gap in self.journal.pending_losses():
            self._see(gap)
            if "receipts away" not in self.harms:
                self.journal.acknowledge_loss(gap.number)
        if self.chance.random() < 0.03:
            raise self.chance.choice((PowerLossError, KilledError))

    def restart(self) -> None:
        self.crash_in = 0
        try:
            self.journal.close(self.now_ms)
        except StorageError:
            pass
        else:
            self._note_committed()
        self.begin_next_life(KilledError())

    def lose_power(self) -> None:
        raise PowerLossError

    # From one life to the next

    def begin_next_life(self, end: Exception) -> None:
        self.leave_disk(end)
        if "repair" in self.harms and self.chance.random() < 0.3:
            if "rot" in self.harms:
                self.rot()
            self.repair_or_crash()
        if self.harms & {"settings", "sizes"} and self.chance.random() < 0.5:
            self.settings = self._draw_settings()
        if "small disk" in self.harms:
            self._squeeze()
        self._survive(self.open)

    def repair_or_crash(self) -> None:
        """What an interrupted repair leaves is what the next life begins with."""
        self._plan_faults()
        self.crash_in = self.chance.randint(1, 25) if self.chance.random() < 0.4 else 0
        try:
            self._repair()
        except (PowerLossError, KilledError) as end:
            self.seen["crash in repair"] += 1
            self.leave_disk(end)

    def _survive(self, work: Callable[[], None]) -> None:
        """Crashes here, too, are followed by the next try, on what they left."""
        for attempt in range(MAX_CRASHES_IN_A_ROW):
            self._plan_faults()
            self.crash_in = self.chance.randint(1, 25) if self.chance.random() < 0.4 and attempt < 9 else 0
            try:
                work()
            except (PowerLossError, KilledError) as end:
                self.seen["crash in opening"] += 1
                self.leave_disk(end)
            else:
                return
        raise AssertionError("it never opens")

    def leave_disk(self, end: Exception) -> None:
        self.seen["power loss" if isinstance(end, PowerLossError) else "kill"] += 1
        is_power_loss = isinstance(end, PowerLossError)
        self.disk = self.disk.after_power_loss(self.chance) if is_power_loss else self.disk.after_kill(self.chance)
        self._watch_disk()

    def _watch_disk(self) -> None:
        self.disk.before_each = self._count_down
        self.disk.after_write = self._interrupt_maintenance

    def _interrupt_maintenance(self, name: str, data: bytes) -> None:
        """Thinning and repair are rare; crash soon after a block that they wrote."""
        is_rewritten = name.endswith(".segment") and data[IS_REWRITTEN] == 1 and not self._is_calm
        if "maintenance" in self.harms and is_rewritten and self.chance.random() < 0.3:
            self.seen["maintenance interrupted"] += 1
            self.crash_in = self.chance.randint(1, 3)

    def open(self) -> None:
        self._watch_disk()
        self.journal = Journal(self.disk, self.settings, new_journal_id=42, now_ms=self.now_ms)
        self._calm_down()
        self.journal.tick(self.now_ms)  # what could not be made durable while opening is now
        self.check()

    def _repair(self) -> None:
        try:
            repair(self.disk, new_journal_id=42, now_ms=self.now_ms)
            self.seen["repair"] += 1
        except (OSError, StorageError):
            self.seen["repair refused"] += 1

    def _draw_settings(self) -> JournalSettings:
        chance = self.chance
        pages, segments = (9, (4, 5, 6)) if "maintenance" in self.harms else (5, (6, 7, 10))
        segment_bytes = (chance.choice((pages, pages + 3)) if "sizes" in self.harms else pages) * PAGE_BYTES
        sizes = JournalSettings(segment_bytes=segment_bytes, max_bytes=4 << 20)
        return JournalSettings(
            segment_bytes=segment_bytes,
            max_bytes=2 * sizes.state_bytes + (20 if "room" in self.harms else chance.choice(segments)) * segment_bytes,
            compression=chance.choice(("zstd", "none")),
            thinned_lanes=chance.choice((frozenset(), frozenset(), frozenset({7}), frozenset({3, 7}))),
            when_full=chance.choice(("shed", "shed", "shed", "stop_reading")),
            cursors=CURSORS,
            positions_interval_ms=chance.choice((0, 1000)),
            spare_segments=chance.choice((1, 4)),
        )

    def _count_down(self) -> None:
        if self.crash_in:
            self.crash_in -= 1
            if not self.crash_in:
                raise self.chance.choice((PowerLossError, KilledError))

    # The disk

    def _plan_faults(self) -> None:
        """How often each operation fails from here on: mostly never."""
        self._is_calm = False
        likely = dict.fromkeys(("sync", "write", "create", "sync_names", "read"), 0.0)
        if "faults" in self.harms and self.chance.random() < 0.3:
            likely[self.chance.choice(("sync", "sync", "write", "create", "sync_names"))] = 0.3
        if "reads" in self.harms and self.chance.random() < 0.1:
            likely["read"] = 0.2

        def fault(operation: str, name: str) -> int | None:
            if self.chance.random() >= likely[operation] or (operation == "read" and name.startswith("state")):
                return None
            self.seen[f"failed {operation}"] += 1
            self.is_damaged |= operation == "read"
            self.is_misread |= operation == "read"
            return errno.EIO

        self.disk.fault = fault

    def _calm_down(self) -> None:
        self.crash_in, self._is_calm = 0, True
        self.disk.fault = lambda _operation, _name: None

    def _squeeze(self) -> None:
        """The disk has less than the cap, or something else takes it."""
        room = self.chance.choice((0.7, 0.9, 1.5))
        self.disk.capacity_bytes = max(self.disk.used_bytes, int(room * self.settings.max_bytes))

    def rot(self) -> None:
        """Anywhere but in the last segment of a lane, where rot and a torn commit look the same."""
        lasts = {
            file_name(lane.segments[-1].file) for lane in inspect_journal(self.disk).lanes.values() if lane.segments
        }
        names = sorted({name for name in self.disk.files if name.endswith(".segment")} - lasts)
        segments = [self.disk.files[name] for name in names]
        if segments:
            file = self.chance.choice(segments)
            written = [at for at in range(0, len(file.content), 512) if any(file.content[at : at + 512])]
            at = self.chance.choice(written or [0])
            for content in (file.content, file.durable):
                content[at : at + 512] = bytes(512)
            self.is_damaged = True
            self.seen["rot"] += 1

    # The oracle

    def _note_committed(self) -> None:
        for lane, entries in self.oracle.in_flight.items():
            self.oracle.committed[lane].update(entries)
            entries.clear()

    def _adopt(self, records: list[Record]) -> None:
        """What a reader got is published: it must stay, whether its commit returned or not."""
        for record in records:
            oracle = self.oracle
            known = oracle.committed[record.lane].get(record.position) or oracle.in_flight[record.lane].get(
                record.position
            )
            assert record.entry == known, f"lane {record.lane}: {record.position} is not what was appended"
            oracle.committed[record.lane][record.position] = record.entry

    def _see(self, gap: PendingLoss) -> None:
        assert self.oracle.reported.setdefault(gap.number, gap) == gap, "one number for two losses"
        assert gap.loss.cause is not Cause.DAMAGED or self.is_damaged, f"nothing was damaged: {gap}"
        self.seen[str(gap.loss.cause)] += 1

    def check(self) -> None:
        """On a calm disk: everything is read, and nothing acknowledged."""
        journal, oracle = self.journal, self.oracle
        readable: dict[int, list[Record]] = {}
        oracle.account.go_back(journal)
        for lane in LANES:
            for name in CURSORS:
                assert journal.cursor(name).position(lane) <= oracle.acknowledged[name, lane]
                oracle.acknowledged[name, lane] = journal.cursor(name).position(lane)
            cursor = min(map(journal.cursor, CURSORS), key=lambda each: each.position(lane))
            cursor.rewind()
            records: list[Record] = []
            while taken := cursor.take(1000, lane=lane):
                records += taken
            cursor.rewind()
            self._adopt(records)
            assert all(each.lane == lane for each in records), f"lane {lane} gives records of another"
            assert all(before.next_position <= after.position for before, after in pairwise(records))
            readable[lane] = records
        gaps = {gap.number: gap for gap in journal._store.losses.pending()}
        gaps.update({gap.number: gap for gap in journal.pending_losses()})
        for gap in gaps.values():
            assert gap.loss.cause is not Cause.DAMAGED or self.is_damaged, f"nothing was damaged: {gap}"
        everything = {**gaps, **oracle.reported}
        for lane in LANES:
            self._check_lane(lane, readable[lane], [gap for gap in everything.values() if gap.loss.lane == lane])

    def _check_lane(self, lane: int, records: list[Record], gaps: list[PendingLoss]) -> None:
        oracle = self.oracle
        stats = self.journal.stats(self.now_ms).lanes.get(lane)
        next_position = stats.next_position if stats else 0
        self._check_account(lane, records, next_position, gaps)
        readable = {record.position for record in records}
        waiting = self.journal._pending.readings(lane)
        for position, entry in list(oracle.in_flight[lane].items()):
            if position < next_position and _explained(position, entry, gaps):
                oracle.committed[lane][position] = entry  # committed, and lost
            if position >= next_position + waiting or position < next_position:
                del oracle.in_flight[lane][position]  # of a process that is gone
        needed = min(oracle.acknowledged[name, lane] for name in CURSORS)
        committed = oracle.committed[lane]
        lost = [at for at, entry in committed.items() if at >= needed and at not in readable]
        missing = [at for at in lost if not _explained(at, committed[at], gaps)]
        assert not missing, f"lane {lane}: {missing} are gone"

    def _check_account(self, lane: int, records: list[Record], next_position: int, gaps: list[PendingLoss]) -> None:
        positions = {position for record in records for position in positions_of(record)}
        lost = self.oracle.account.lost(self.journal, lane, positions, next_position)
        check_losses(lost, gaps, is_misread=self.is_misread)


def live(seed: int, steps: int, harms: frozenset[str] | None = None) -> Counter[str]:
    """All lives of one seed, with room for few gaps, so that they are joined. Gives what happened in them."""
    with patch.multiple("agent.journal.losses", MAX_REPORTED_LOSSES=3, MAX_UNREPORTED_LOSSES=4):
        lives = JournalLives(seed, harms)
        lives.live(steps)
    return lives.seen


def _explained(position: int, entry: Entry, gaps: list[PendingLoss]) -> bool:
    last = position + entry.readings - 1
    return any(
        gap.loss.first_position <= position and last <= gap.loss.last_position and gap.loss.chain in ("", entry.chain)
        for gap in gaps
    )
