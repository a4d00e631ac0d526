"""The loop with a destination that a test owns; `tests/property/test_delivery.py` has the laws."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.errors import LinkDown
from agent.journal import Entry, Journal, Record
from agent.publish import (
    Acknowledged,
    Clocks,
    Outcome,
    Quarantine,
    RejectedRun,
    SenderSettings,
    run_of,
)
from agent.publish.contract import OutcomeQueue
from runtime.backoff import Backoff
from tests.support.draining_sender import DrainingSender
from tests.support.journal_helpers import open_journal
from tests.support.patience import PATIENCE_S
from tests.support.publish_records import NOW_MS, filled_journal, source_of
from tests.support.simulated_disk import SimulatedDisk
from tests.support.within import within

QUICK = SenderSettings(backoff=Backoff(first_s=1e-6, max_s=1e-6), deadline_s=0.04, connect_timeout_s=0.05)


class FakePublisher:
    """Acknowledges everything, unless a test says otherwise."""

    name = "fake"
    max_in_flight = 10

    def __init__(self) -> None:
        self.sent: list[list[Record]] = []  # per connection
        self.batches: list[int] = []
        self.has_sent = asyncio.Event()
        self.box = OutcomeQueue()

    async def connect(self) -> None:
        self.box = OutcomeQueue()
        self.sent.append([])

    async def send(self, records: Sequence[Record]) -> None:
        self.sent[-1] += records
        self.batches.append(len(records))
        self.has_sent.set()
        for record in records:
            self.answer(record)

    def answer(self, record: Record) -> None:
        self.box.put(Acknowledged(*run_of([record])))

    async def outcomes(self) -> Sequence[Outcome]:
        return await self.box.take()

    async def close(self) -> None: ...


def deliver(
    publisher: FakePublisher,
    journal: Journal,
    folder: Path,
    settings: SenderSettings = QUICK,
    clocks: Clocks | None = None,
) -> DrainingSender:
    async def scenario() -> DrainingSender:
        quarantine = Quarantine(folder / "aside.jsonl", "fake")
        delivery = DrainingSender(publisher, source_of(journal), quarantine, settings, clocks)
        async with asyncio.timeout(PATIENCE_S):
            await delivery.run_until_drained()
        return delivery

    return asyncio.run(scenario())


def test_packs_are_acknowledged_by_their_last_reading_and_counted_in_readings(tmp_path: Path) -> None:
    journal, publisher = filled_journal((0, "a", 5), readings=250), FakePublisher()
    delivery = deliver(publisher, journal, tmp_path)
    assert [record.position for record in publisher.sent[0]] == [0, 250, 500, 750, 1000]
    status = delivery.status
    assert (status.readings_sent, status.messages_sent) == (1250, 5)
    assert (status.readings_acknowledged, status.messages_acknowledged) == (1250, 5)
    assert journal.cursor("publisher").position(0) == 1250
    assert journal.stats(NOW_MS).cursors["publisher"].depth == 0


class HoldingPublisher(FakePublisher):
    """Holds all that it gets, and acknowledges the oldest whenever the sender has sent what it may."""

    max_in_flight = 1_000

    def __init__(self) -> None:
        super().__init__()
        self.held: list[Record] = []
        self.most_bytes = 0

    def answer(self, record: Record) -> None:
        self.held.append(record)

    async def outcomes(self) -> Sequence[Outcome]:
        await self.has_sent.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        self.most_bytes = max(self.most_bytes, sum(len(record.payload) for record in self.held))
        oldest = self.held.pop(0)
        if not self.held:
            self.has_sent.clear()
        return [Acknowledged(*run_of([oldest]))]


def test_large_messages_are_in_flight_up_to_so_many_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.publish.sender.MAX_IN_FLIGHT_BYTES", 10_000)
    journal, publisher = open_journal(SimulatedDisk()), HoldingPublisher()
    for number in range(25):
        journal.append(0, Entry(bytes(1_000), "a", NOW_MS, number, 250))
        journal.commit(NOW_MS)
    assert deliver(publisher, journal, tmp_path, SenderSettings()).status.readings_acknowledged == 25 * 250
    assert publisher.most_bytes == 10_000


def test_everything_is_sent_in_order_and_acknowledged(tmp_path: Path) -> None:
    journal, publisher = filled_journal((0, "a", 25), (3, "b", 40)), FakePublisher()
    delivery = deliver(publisher, journal, tmp_path)
    for lane in (0, 3):
        positions = [record.position for record in publisher.sent[0] if record.lane == lane]
        assert positions == list(range(len(positions)))
    assert delivery.status.messages_acknowledged == 65
    assert journal.cursor("publisher").waiting_lanes() == []
    assert [journal.cursor("publisher").position(lane) for lane in (0, 3)] == [25, 40]
    assert max(publisher.batches) <= publisher.max_in_flight


def test_lanes_share_what_may_be_in_flight(tmp_path: Path) -> None:
    """A backlog in an important lane does not stop the live data of another."""
    publisher = FakePublisher()
    deliver(publisher, filled_journal((0, "backlog", 200), (5, "live", 5)), tmp_path)
    lanes = [record.lane for record in publisher.sent[0]]
    assert lanes.index(5) <= publisher.max_in_flight


def test_a_refused_message_is_on_the_disk_before_the_journal_forgets_it(tmp_path: Path) -> None:
    class Refusing(FakePublisher):
        def answer(self, record: Record) -> None:
            if record.position == 3:
                self.box.put(RejectedRun(*run_of([record]), "bad\nmessage"))
            else:
                super().answer(record)

    journal = filled_journal((0, "a", 6))
    delivery = deliver(Refusing(), journal, tmp_path)
    (reported,) = map(json.loads, (tmp_path / "aside.jsonl").read_text().splitlines())
    assert (reported["position"], reported["reason"], reported["message"], reported["publisher"]) == (
        3,
        "bad\nmessage",
        "3",
        "fake",
    )
    assert (delivery.status.messages_acknowledged, delivery.status.messages_quarantined) == (5, 1)
    assert journal.cursor("publisher").position(0) == 6


def test_while_the_disk_refuses_the_quarantine_the_message_stays_in_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing(FakePublisher):
        def answer(self, record: Record) -> None:
            self.box.put(RejectedRun(*run_of([record]), "no"))

    monkeypatch.setattr("agent.publish.sender.QUARANTINE_RETRY_S", 0.001)
    (tmp_path / "aside.jsonl").mkdir()  # in the way

    async def scenario() -> None:
        journal = filled_journal((0, "a", 3))
        delivery = DrainingSender(Refusing(), source_of(journal), Quarantine(tmp_path / "aside.jsonl", "fake"), QUICK)
        running = asyncio.create_task(delivery.run_until_drained())
        async with asyncio.timeout(PATIENCE_S):
            while "aside.jsonl" not in delivery.status.blocked:  # noqa: ASYNC110 - a status knows no events
                await asyncio.sleep(0.001)
            assert journal.cursor("publisher").position(0) == 0
            assert delivery.status.messages_quarantined == 0
            (tmp_path / "aside.jsonl").rmdir()
            await running
        assert journal.cursor("publisher").position(0) == 3
        assert (delivery.status.messages_quarantined, delivery.status.blocked) == (3, "")
        assert len((tmp_path / "aside.jsonl").read_text().splitlines()) == 3

    asyncio.run(scenario())


def test_silence_while_something_is_under_way_ends_the_connection(tmp_path: Path) -> None:
    class SilentAtFirst(FakePublisher):
        def answer(self, record: Record) -> None:
            if len(self.sent) > 1:
                super().answer(record)

    publisher = SilentAtFirst()
    delivery = deliver(publisher, filled_journal((0, "a", 5)), tmp_path)
    assert [len(sent) for sent in publisher.sent] == [5, 5]
    assert "closing the connection" in delivery.status.problem


def test_a_connection_that_does_not_come_about_is_given_up(tmp_path: Path) -> None:
    class Hanging(FakePublisher):
        async def connect(self) -> None:
            await super().connect()
            if len(self.sent) == 1:
                await asyncio.Event().wait()

    delivery = deliver(Hanging(), filled_journal((0, "a", 5)), tmp_path)
    assert delivery.status.connections == 1
    assert "no connection" in delivery.status.problem


def test_the_message_that_closes_the_link_is_found_and_quarantined(tmp_path: Path) -> None:
    class Fragile(FakePublisher):
        def answer(self, record: Record) -> None:
            if record.position == 7:
                self.box.fail(LinkDown("too big", by_message=True))
            elif not any(each.position == 7 for each in self.sent[-1]):
                super().answer(record)

    publisher, journal = Fragile(), filled_journal((0, "a", 20))
    delivery = deliver(publisher, journal, tmp_path)
    assert delivery.status.messages_quarantined == 1
    assert journal.cursor("publisher").position(0) == 20
    reported = json.loads((tmp_path / "aside.jsonl").read_text())
    assert (reported["position"], reported["reason"]) == (7, "too big")


def test_a_backlog_goes_at_its_rate(tmp_path: Path) -> None:
    """The clock stands: after the first batch, which shows that there is a backlog, one second's worth may go."""

    async def scenario() -> int:
        publisher = FakePublisher()
        clocks = Clocks(now_s=lambda: 1.0, now_ms=lambda: NOW_MS + 60_000)
        settings = SenderSettings(backoff=QUICK.backoff, backlog_per_s=15)
        journal = filled_journal((0, "a", 60), (1, "live", 0))
        delivery = DrainingSender(
            publisher, source_of(journal), Quarantine(tmp_path / "aside", "fake"), settings, clocks
        )
        with pytest.raises(TimeoutError):
            await within(0.3, delivery.run_until_drained())
        return sum(publisher.batches)

    assert asyncio.run(scenario()) == 15


def test_live_data_knows_no_rate(tmp_path: Path) -> None:
    clocks = Clocks(now_s=lambda: 1.0, now_ms=lambda: NOW_MS)
    settings = SenderSettings(backoff=QUICK.backoff, backlog_per_s=15)
    assert deliver(FakePublisher(), filled_journal((0, "a", 60)), tmp_path, settings, clocks).status.messages_sent == 60


def test_a_delivery_that_was_stopped_begins_with_what_is_not_settled(tmp_path: Path) -> None:
    class SilentAtFirst(FakePublisher):
        def answer(self, record: Record) -> None:
            if len(self.sent) > 1:
                super().answer(record)

    async def scenario() -> list[int]:
        publisher, journal = SilentAtFirst(), filled_journal((0, "a", 5))
        settings = SenderSettings(deadline_s=3_600)
        delivery = DrainingSender(publisher, source_of(journal), Quarantine(tmp_path / "aside", "fake"), settings)
        first = asyncio.create_task(delivery.run())
        await publisher.has_sent.wait()
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        async with asyncio.timeout(PATIENCE_S):
            await delivery.run_until_drained()
        return [len(sent) for sent in publisher.sent]

    assert asyncio.run(scenario()) == [5, 5]
