"""Ordering, judged by what release 9.1.2 of the JavaScript client did with the same arrivals."""

from typing import Any

import pytest

from protocol.streamr.ids import MessageID, MessageRef
from protocol.streamr.ordering import (
    Delivery,
    GapLost,
    GapLostCause,
    GapRequest,
    Orderer,
    OrderingEvent,
    OrderingRules,
)
from protocol.streamr.stream_message import StreamMessage
from tests.support.streamr_vectors import load_vectors

SCENARIOS = load_vectors("ordering")


def message(
    timestamp: int, prev: int | None = None, *, chain: str = "c", sequence: int = 0, publisher: str = "0xpub"
) -> StreamMessage:
    return StreamMessage(
        message_id=MessageID("stream", 0, timestamp, sequence, publisher, chain),
        prev_msg_ref=None if prev is None else MessageRef(prev, 0),
        content="{}",
    )


def delivered(events: list[OrderingEvent]) -> list[int]:
    return [event.message.message_id.timestamp for event in events if isinstance(event, Delivery)]


class Replay:
    """Plays a scenario in virtual time and writes events down the way the vectors do."""

    def __init__(self, scenario: dict[str, Any]) -> None:
        self.scenario = scenario
        self.log: list[dict[str, Any]] = []
        self.requests = 0
        self.orderer = Orderer(
            OrderingRules(
                propagation_timeout_ms=scenario["propagationTimeout"],
                resend_timeout_ms=scenario["resendTimeout"],
                max_gap_requests=scenario["maxGapRequests"],
            )
        )

    def run(self) -> list[dict[str, Any]]:
        for step in self.scenario["steps"]:
            self.advance(step["at"])
            self.add(step["chain"], step["ref"], step["prev"], step["at"])
        self.advance(self.scenario["end"])
        return self.log

    def advance(self, until_ms: int) -> None:
        while (deadline_ms := self.orderer.next_deadline_ms) is not None and deadline_ms <= until_ms:
            self.note(self.orderer.tick(deadline_ms), deadline_ms)

    def add(self, chain: str, ref: list[int], prev: list[int] | None, at_ms: int) -> None:
        arrived = StreamMessage(
            message_id=MessageID("stream-id", 0, ref[0], ref[1], "0xpub", chain),
            prev_msg_ref=None if prev is None else MessageRef(*prev),
            content="{}",
        )
        self.note(self.orderer.add(arrived, at_ms), at_ms)

    def note(self, events: list[OrderingEvent], at_ms: int) -> None:
        for event in events:
            match event:
                case Delivery(arrived):
                    chain, ref = arrived.message_id.msg_chain_id, list(arrived.message_id.ref)
                    self.log.append({"at": at_ms, "ev": "deliver", "chain": chain, "ref": ref})
                case GapRequest():
                    self.note_request(event, at_ms)
                case GapLost():
                    self.note_loss(event, at_ms)

    def note_request(self, event: GapRequest, at_ms: int) -> None:
        self.requests += 1
        bounds = {"from": list(event.from_ref), "to": list(event.to_ref)}
        chain = event.chain.msg_chain_id
        self.log.append({"at": at_ms, "ev": "gap", "chain": chain, **bounds, "request": self.requests})
        for chain, ref, prev in self.scenario["fill_on_request"].get(str(self.requests), []):
            self.add(chain, ref, prev, at_ms)

    def note_loss(self, event: GapLost, at_ms: int) -> None:
        bounds = f"[{event.from_ref[0]},{event.from_ref[1]}] and [{event.to_ref[0]},{event.to_ref[1]}]"
        chain = f"{event.chain.publisher_id}-{event.chain.msg_chain_id}"
        text = f"Failed to fill gap between {bounds} for {chain} after {event.requests} trials"
        self.log.append({"at": at_ms, "ev": "error", "error": "GapFillFailedError", "message": text})


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario["name"])
def test_events_are_those_of_the_reference(scenario: dict[str, Any]) -> None:
    assert Replay(scenario).run() == scenario["events"][scenario["expected_reference"]]


def test_every_scenario_is_there() -> None:
    assert len(SCENARIOS) == 11


def test_message_that_comes_again_is_dropped_whether_delivered_or_waiting() -> None:
    orderer = Orderer()
    assert delivered(orderer.add(message(1), 0)) == [1]
    assert orderer.add(message(3, 2), 0) == []
    assert orderer.add(message(1), 0) == []
    assert orderer.add(message(3, 2), 0) == []
    assert orderer.queued_messages == 1


def test_skipped_message_keeps_its_place_but_is_not_delivered() -> None:
    orderer = Orderer()
    orderer.add(message(1), 0)
    orderer.add(message(3, 2), 0)
    assert delivered(orderer.skip(message(2, 1), 0)) == [3]
    assert orderer.next_deadline_ms is None


def test_publisher_written_in_another_case_is_the_same_chain() -> None:
    orderer = Orderer()
    orderer.add(message(1, publisher="0xAB"), 0)
    assert orderer.add(message(3, 2, publisher="0xab"), 0) == []


def test_unchained_message_waits_behind_a_gap_that_is_older() -> None:
    orderer = Orderer()
    orderer.add(message(1), 0)
    orderer.add(message(3, 2), 0)
    assert orderer.add(message(9), 0) == []
    assert delivered(orderer.add(message(2, 1), 0)) == [2, 3, 9]


def test_late_tick_asks_once_for_all_the_turns_it_missed() -> None:
    orderer = Orderer()
    orderer.add(message(1), 0)
    orderer.add(message(3, 2), 0)
    (request,) = orderer.tick(60_000)
    assert isinstance(request, GapRequest)
    assert request.request == 1
    assert orderer.next_deadline_ms == 65_000


def test_gap_after_one_given_up_is_requested_a_resend_timeout_later() -> None:
    rules = OrderingRules(propagation_timeout_ms=1_000, resend_timeout_ms=300, max_gap_requests=1)
    orderer = Orderer(rules)
    for arrived in (message(1), message(3, 2), message(6, 5)):
        orderer.add(arrived, 0)
    orderer.tick(1_000)
    lost, delivery = orderer.tick(1_300)
    assert isinstance(lost, GapLost)
    assert isinstance(delivery, Delivery)
    assert lost.cause is GapLostCause.UNANSWERED
    assert orderer.next_deadline_ms == 1_600


def test_full_queue_gives_up_its_gap_at_once_and_loses_nothing_that_arrived() -> None:
    orderer = Orderer(OrderingRules(max_queued_messages=3))
    orderer.add(message(1), 0)
    events = [event for t in (3, 5, 7, 9) for event in orderer.add(message(t, t - 1), 0)]
    assert delivered(events) == [3]
    assert [event.cause for event in events if isinstance(event, GapLost)] == [GapLostCause.NO_ROOM]
    assert orderer.queued_messages == 3


def test_chain_longest_unheard_of_makes_room_for_a_new_one_and_its_queue_is_delivered() -> None:
    orderer = Orderer(OrderingRules(max_chains=2))
    for arrived in (message(1, chain="old"), message(3, 2, chain="old"), message(1, chain="young")):
        orderer.add(arrived, 0)
    lost, old, new = orderer.add(message(5, chain="new"), 0)
    assert isinstance(lost, GapLost)
    assert delivered([old, new]) == [3, 5]
    assert orderer.queued_messages == 0


def test_greatest_sequence_number_does_not_break_the_gap_request() -> None:
    orderer = Orderer()
    orderer.add(message(1, sequence=2**64 - 1), 0)
    orderer.add(message(3, 2), 0)
    (request,) = orderer.tick(5_000)
    assert isinstance(request, GapRequest)
    assert request.to_ref == MessageRef(2, 0)


@pytest.mark.parametrize("field", ["propagation_timeout_ms", "resend_timeout_ms", "max_gap_requests", "max_chains"])
def test_rules_refuse_numbers_below_their_least_by_name(field: str) -> None:
    with pytest.raises(ValueError, match=field):
        OrderingRules(**{field: -1})
