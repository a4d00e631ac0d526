"""Sends the records of a journal cursor to a destination: connect, send, settle, retry.

    cursor ──► step ──► window ──► publisher.send
      ▲                   │
      └── acknowledge ◄───┴── settle ◄── publisher.outcomes

- Records go out in the order of the cursor. Lanes share what may be in flight, so that a backlog in one lane does not
  keep the live data of another waiting; within a lane, and so within a chain, nothing overtakes.
- In flight are at most as many messages as the publisher allows, and `MAX_IN_FLIGHT_BYTES` of them: packs are large.
- A backlog (records older than `LIVE_AGE_MS`) goes at full speed, or at `backlog_per_s` where that is set.
- When the link is lost, everything not settled is sent again on the next one, after a wait that grows by failures.
- Where something is in flight and no outcome comes for `deadline_s`, the link counts as down: this is how half-open
  connections appear.
- A refused message is in the quarantine file before the journal may drop it. While the disk refuses that, the cursor
  waits: messages for which the journal then has no space are shed, and reported as lost.
- Where the destination closes the link because of a message, those that were in flight go one by one, and the one that
  causes it again is quarantined.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agent.errors import LinkDown, StorageError
from agent.journal import Record
from agent.publish.contract import Outcome, Publisher, RejectedRun, run_of
from agent.publish.feed import CursorSource, Window
from agent.publish.quarantine import Quarantine, RejectedRecord
from runtime.backoff import Backoff
from runtime.stopping import run_until_first_ends
from runtime.token_bucket import TokenBucket

LIVE_AGE_MS = 5_000
MAX_IN_FLIGHT_BYTES = 8 << 20  # beyond it no more is taken, a block of each lane at most
CLOSE_TIMEOUT_S = 5.0
MAX_LOSSES_WITH_SUSPECT = 3
QUARANTINE_RETRY_S = 1.0
FUTURE_TIMESTAMP = "FUTURE_TIMESTAMP"  # as nodes call it

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderSettings:
    """The settings of every publisher."""

    backoff: Backoff = field(default_factory=Backoff)
    connect_timeout_s: float = 20.0
    deadline_s: float = 30.0  # without any outcome, while something is in flight
    backlog_per_s: float | None = None  # None: as fast as it goes


@dataclass(frozen=True, slots=True)
class Clocks:
    """Time and randomness, which tests replace."""

    now_s: Callable[[], float] = time.monotonic
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    chance: Callable[[], float] = random.random


@dataclass(slots=True)
class LinkStatus:
    """The state of a link, as the status shows it. Counts only rise."""

    is_up: bool = False
    problem: str = ""  # why it is down, or was last
    blocked: str = ""  # why nothing more is sent although it is up
    failures: int = 0  # in a row
    connections: int = 0
    readings_sent: int = 0
    messages_sent: int = 0
    readings_acknowledged: int = 0
    messages_acknowledged: int = 0
    readings_quarantined: int = 0
    messages_quarantined: int = 0
    messages_removed: int = 0  # by the destination's own limit, after they were acknowledged
    last_acknowledged_at_ms: int | None = None


class Sender:
    """Sends the records of one cursor to one destination. `run` is one task of the pipeline; cancel it to stop."""

    def __init__(
        self,
        publisher: Publisher,
        source: CursorSource,
        quarantine: Quarantine,
        settings: SenderSettings | None = None,
        clocks: Clocks | None = None,
        on_future: Callable[[int], None] = lambda _timestamp_ms: None,
    ) -> None:
        """`on_future`: is given the timestamp of a message that the destination refused as being in the future."""
        self.status = LinkStatus()
        self._on_future = on_future
        self._publisher = publisher
        self._source = source
        self._quarantine = quarantine
        self._settings = settings or SenderSettings()
        self._clocks = clocks or Clocks()
        self._window = Window()
        per_s = self._settings.backlog_per_s
        self._backlog_rate = None if per_s is None else TokenBucket(per_s, burst=max(per_s, 1.0))
        self._backlog_lanes: set[int] = set()
        self._suspects = 0  # records still to go one by one
        self._losses_with: dict[tuple[int, int], int] = {}
        self._is_held_back = False  # by the rate, in the last step
        self._progress_at_s = 0.0

    @property
    def in_flight(self) -> int:
        return self._window.in_flight

    async def run(self) -> None:
        """Send until cancelled. It may then be called again: it begins with the first record that is not settled."""
        await self._begin_again()
        try:
            while True:
                await self._use_one_connection()
                await asyncio.sleep(self._settings.backoff.wait_s(self.status.failures, self._clocks.chance()))
        finally:
            self.status.is_up = False
            await self._close()

    async def _begin_again(self) -> None:
        self._window.disconnect()
        await self._source.rewind()

    async def _use_one_connection(self) -> None:
        try:
            await self._connect()
            await run_until_first_ends(feed=self._feed(), collect=self._collect())
        except LinkDown as problem:
            await self._note_loss(problem)

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(self._settings.connect_timeout_s):
                await self._publisher.connect()
        except TimeoutError:
            raise LinkDown(f"no connection within {self._settings.connect_timeout_s:g} s") from None
        self.status.connections += 1
        self.status.is_up = True
        log.info("link up; publisher=%s", self._publisher.name)

    async def _note_loss(self, problem: LinkDown) -> None:
        if self.status.is_up or not self.status.failures:
            log.warning("link down, buffering; publisher=%s problem=%s", self._publisher.name, problem)
        self.status.is_up = False
        self.status.problem = str(problem)
        self.status.failures += 1
        await self._find_refused_record(problem)
        await self._close()
        await self._begin_again()

    async def _find_refused_record(self, problem: LinkDown) -> None:
        """Quarantine the record that is in flight each time the destination closes the link without a reason."""
        suspect = self._window.only_one()
        if problem.by_message and suspect is None:
            self._suspects = self._window.in_flight
        if suspect is None or not (problem.by_message or self._suspects):
            return
        place = suspect.lane, suspect.position
        self._losses_with[place] = self._losses_with.get(place, 0) + 1
        if problem.by_message or self._losses_with[place] >= MAX_LOSSES_WITH_SUSPECT:
            await self._settle([RejectedRun(*run_of([suspect]), str(problem))])

    async def _close(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._publisher.close()

    async def _feed(self) -> None:
        while True:
            if records := await self._step():
                await self._send(records)
            else:
                await self._wait_for_work()

    async def _step(self) -> list[Record]:
        """Acknowledge settled records to the journal, and take the next ones."""
        self._is_held_back = False
        records = await self._source.step(self._window.take_settled(), self._share)
        self._note_backlog(records)
        to_send = self._window.add(records)
        if len(to_send) < len(records):
            self._source.notify()  # some were settled on an earlier connection: they are acknowledged at once
        return to_send

    def _room(self) -> int:
        if self._window.in_flight_bytes >= MAX_IN_FLIGHT_BYTES:
            return 0
        return (1 if self._suspects else self._publisher.max_in_flight) - self._window.in_flight

    def _share(self, lane: int, waiting_lanes: int, taken: int) -> int:
        if self._suspects:
            return self._room() - taken
        share = -(-self._room() // waiting_lanes)  # rounded up: no lane is left out, however little room there is
        if self._backlog_rate is None or lane not in self._backlog_lanes:
            return share
        allowed = min(share, int(self._backlog_rate.level(self._clocks.now_s())))
        self._is_held_back |= allowed < share
        return allowed

    def _note_backlog(self, records: Sequence[Record]) -> None:
        """Which lanes are behind, by the age of the last record taken of each."""
        if self._backlog_rate is None:
            return
        now_s, old_ms = self._clocks.now_s(), self._clocks.now_ms() - LIVE_AGE_MS
        for record in records:
            if record.committed_at_ms < old_ms:
                self._backlog_lanes.add(record.lane)
                self._backlog_rate.take(1, now_s)
            else:
                self._backlog_lanes.discard(record.lane)

    async def _send(self, records: list[Record]) -> None:
        if self._window.in_flight == len(records):  # nothing was in flight: the deadline begins here
            self._progress_at_s = self._clocks.now_s()
        self.status.messages_sent += len(records)
        self.status.readings_sent += _readings(records)
        await self._publisher.send(records)

    async def _wait_for_work(self) -> None:
        """Wait until records are settled, or more may be in flight."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._held_back_s()):
                await self._source.wait_for_news()
                while not (self._room() > 0 or self._window.has_settled()):
                    await self._source.wait_for_more_news()

    def _held_back_s(self) -> float | None:
        """Seconds until the rate allows one more record; None if it is not the rate that is waited for."""
        if self._backlog_rate is None or not self._is_held_back:
            return None
        return self._backlog_rate.wait_s(1, self._clocks.now_s())

    async def _collect(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._settings.deadline_s / 4):
                    outcomes = await self._publisher.outcomes()
            except TimeoutError:
                self._check_deadline()
            else:
                await self._settle(outcomes)
                self.status.failures = 0

    def _check_deadline(self) -> None:
        silent_s = self._clocks.now_s() - self._progress_at_s
        if self._window.in_flight and silent_s >= self._settings.deadline_s:
            raise LinkDown(f"no acknowledgement for {silent_s:.0f} s; closing the connection")

    async def _settle(self, outcomes: Sequence[Outcome]) -> None:
        refused = {
            (record.lane, record.position): RejectedRecord(record, outcome.reason)
            for outcome in outcomes
            if isinstance(outcome, RejectedRun)
            for record in self._window.in_flight_records(*outcome[:3])
        }
        if refused:  # on the disk before the journal may drop it
            await self._quarantine_records(list(refused.values()))
        settled = [record for outcome in outcomes for record in self._window.settle(*outcome[:3])]
        acknowledged = [record for record in settled if (record.lane, record.position) not in refused]
        self.status.messages_acknowledged += len(acknowledged)
        self.status.readings_acknowledged += _readings(acknowledged)
        self._note_progress(len(settled))

    def _note_progress(self, settled: int) -> None:
        self._suspects = max(self._suspects - settled, 0)
        if not self._suspects:
            self._losses_with.clear()
        self.status.last_acknowledged_at_ms = self._clocks.now_ms()
        self.status.messages_removed = getattr(self._publisher, "removed", 0)
        self._progress_at_s = self._clocks.now_s()
        self._source.notify()

    async def _quarantine_records(self, refused: list[RejectedRecord]) -> None:
        for record, reason in refused:
            if FUTURE_TIMESTAMP in reason:
                self._on_future(record.timestamp_ms)
        await self._store(refused)
        readings = _readings([record for record, _ in refused])
        self.status.messages_quarantined += len(refused)
        self.status.readings_quarantined += readings
        record, reason = refused[0]
        log.error(
            "readings refused by the destination and quarantined; publisher=%s readings=%d messages=%d chain=%s file=%s"
            " reason=%s",
            self._publisher.name, readings, len(refused), record.chain, self._quarantine.path, reason,
        )  # fmt: skip

    async def _store(self, refused: list[RejectedRecord]) -> None:
        """Store them, and retry until the disk accepts; meanwhile the cursor waits, and soon the link."""
        problem = ""
        while True:
            try:
                await asyncio.to_thread(self._quarantine.add, refused, self._clocks.now_ms())
            except StorageError as error:
                if not problem:
                    log.error("publishing is blocked; publisher=%s problem=%s", self._publisher.name, error)  # noqa: TRY400
                self.status.blocked = problem = str(error)
                await asyncio.sleep(QUARANTINE_RETRY_S)
            else:
                if problem:
                    log.info("refused messages can be stored again; publisher=%s", self._publisher.name)
                self.status.blocked = ""
                return


def _readings(records: Sequence[Record]) -> int:
    return sum([record.readings for record in records])
