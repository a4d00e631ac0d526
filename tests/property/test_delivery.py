"""The laws of delivery, whatever the link does: nothing skipped, nothing out of order, repeated only on a new link."""

import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import LinkDown
from agent.journal import Record
from agent.publish import (
    Acknowledged,
    CursorSource,
    Outcome,
    Quarantine,
    RejectedRun,
    SenderSettings,
    run_of,
)
from agent.publish.contract import OutcomeQueue
from agent.publish.feed import Window
from runtime.backoff import Backoff
from tests.effort import effort
from tests.support.draining_sender import DrainingSender
from tests.support.patience import PATIENCE_S
from tests.support.publish_records import filled_journal, record

QUICK = SenderSettings(backoff=Backoff(first_s=1e-9, max_s=1e-9), deadline_s=5)
MAX_FAILURES = 30
LANES = [(0, "a", 12), (0, "b", 7), (4, "c", 15)]


class UnreliablePublisher:
    """Settles what it was sent in any order, one by one or by runs, refuses some, fails at any moment, and loses what
    it then had.
    """

    name = "unreliable"
    max_in_flight = 6

    def __init__(self, chance: Random) -> None:
        self.sent: list[list[Record]] = []  # per connection
        self.settled: dict[tuple[int, int], bool] = {}  # whether it was acknowledged
        self._chance = chance
        self._failures = 0
        self._open: list[list[Record]] = []  # runs
        self._box = OutcomeQueue()

    async def connect(self) -> None:
        self._maybe_fail(0.2)
        self._box = OutcomeQueue()
        self._open = []
        self.sent.append([])

    async def send(self, records: Sequence[Record]) -> None:
        for each in records:
            self._maybe_fail(0.05)
            self.sent[-1].append(each)
            await self._maybe_yield()
        self._open += self._runs(records)
        self._answer_some()

    async def outcomes(self) -> Sequence[Outcome]:
        await self._maybe_yield()
        self._answer_some()
        return await self._box.take()

    async def close(self) -> None: ...

    def _answer_some(self) -> None:
        self._chance.shuffle(self._open)
        count = self._chance.randint(1, len(self._open)) if self._open else 0
        for _ in range(count):
            run = self._open.pop()
            is_good = self._chance.random() > 0.1
            self.settled |= {(each.lane, each.position): is_good for each in run}
            outcome = Acknowledged(*run_of(run)) if is_good else RejectedRun(*run_of(run), "no")
            self._box.put(*[outcome] * self._chance.randint(1, 2))
        if self._chance.random() < 0.15 and self._failures < MAX_FAILURES:
            self._failures += 1
            self._box.fail(LinkDown("unreliable"))

    def _runs(self, records: Sequence[Record]) -> Iterator[list[Record]]:
        """Neighbours of a lane, as many together as chance will have it."""
        for _, neighbours in groupby(records, key=lambda each: each.lane):
            rest = list(neighbours)
            while rest:
                size = self._chance.randint(1, 4)
                yield rest[:size]
                rest = rest[size:]

    def _maybe_fail(self, probability: float) -> None:
        if self._failures < MAX_FAILURES and self._chance.random() < probability:
            self._failures += 1
            raise LinkDown("unreliable")

    async def _maybe_yield(self) -> None:
        for _ in range(self._chance.randint(0, 2)):
            await asyncio.sleep(0)


@settings(max_examples=effort(test=15, soak=1_000), deadline=None)
@given(seed=st.integers(0, 2**32), readings=st.integers(1, 3))
def test_any_interleaving_of_proofs_refusals_and_lost_links_delivers_everything(seed: int, readings: int) -> None:
    """With messages of one reading, and with packs: positions number readings."""
    journal, publisher = filled_journal(*LANES, readings=readings), UnreliablePublisher(Random(seed))
    cursor = journal.cursor("publisher")

    async def scenario(folder: str) -> DrainingSender:
        quarantine = Quarantine(Path(folder) / "aside.jsonl", "test")
        delivery = DrainingSender(publisher, CursorSource(cursor), quarantine, QUICK)
        async with asyncio.timeout(PATIENCE_S):
            await delivery.run_until_drained()
        return delivery

    with tempfile.TemporaryDirectory() as folder:
        delivery = asyncio.run(scenario(folder))
    assert {lane: cursor.position(lane) for lane in (0, 4)} == {0: 19 * readings, 4: 15 * readings}
    assert cursor.waiting_lanes() == []
    assert len(publisher.settled) == 34
    assert delivery.status.messages_acknowledged == sum(publisher.settled.values())
    assert delivery.status.messages_quarantined == 34 - delivery.status.messages_acknowledged
    assert delivery.status.readings_acknowledged == readings * delivery.status.messages_acknowledged
    assert delivery.status.readings_quarantined == readings * delivery.status.messages_quarantined
    assert delivery.status.readings_sent == readings * delivery.status.messages_sent
    for sent in publisher.sent:
        for lane in (0, 4):
            positions = [each.position for each in sent if each.lane == lane]
            assert positions == sorted(set(positions)), "out of order, or repeated on one link"
    check_nothing_is_skipped(publisher.sent, readings)


def check_nothing_is_skipped(connections: list[list[Record]], readings: int) -> None:
    """A link begins no later than where the previous one had come, and every position was sent before any later one."""
    for lane in (0, 4):
        furthest = -readings
        for sent in connections:
            for position in (each.position for each in sent if each.lane == lane):
                assert position <= furthest + readings, "a record was passed over"
                furthest = max(furthest, position)


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("take"), st.integers(1, 5)),
            st.tuples(st.just("settle"), st.tuples(st.integers(0, 30), st.integers(0, 5))),
            st.tuples(st.just("tell"), st.just(0)),
            st.tuples(st.just("disconnect"), st.just(0)),
        ),
        max_size=60,
    ),
    readings=st.integers(1, 3),
)
def test_the_window_tells_of_exactly_the_settled_run(steps: list[tuple[str, Any]], readings: int) -> None:
    """Numbers are those of records; each has as many positions as readings."""
    window, settled, reported, taken = Window(), set[int](), -1, 0
    for action, number in steps:
        if action == "take":
            added = range(taken, taken + number)
            to_send = window.add([record(each * readings, readings=readings) for each in added])
            assert [each.position // readings for each in to_send] == [each for each in added if each not in settled]
            taken += number
        elif action == "settle":
            first, last = number[0], sum(number)
            open_ones = [p for p in range(max(first, reported + 1), min(last + 1, taken)) if p not in settled]
            run = 0, first * readings, (last + 1) * readings - 1
            assert [each.position // readings for each in window.in_flight_records(*run)] == open_ones
            assert [each.position // readings for each in window.settle(*run)] == open_ones
            settled.update(open_ones)
        elif action == "tell":
            reported = (window.take_settled().get(0, (reported + 1) * readings - 1) + 1) // readings - 1
            assert settled >= set(range(reported + 1))
            assert reported + 1 not in settled or reported + 1 >= taken
        elif action == "disconnect":
            window.disconnect()
            taken = reported + 1
        assert window.in_flight == len([p for p in range(reported + 1, taken) if p not in settled])
