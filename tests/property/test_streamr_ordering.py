"""Laws of ordering: whatever the network does to a chain, its reader sees it in order, nothing twice."""

from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.streamr.ids import MessageID, MessageRef
from protocol.streamr.ordering import Delivery, GapLost, GapRequest, Orderer, OrderingEvent, OrderingRules
from protocol.streamr.stream_message import StreamMessage

CHAIN = [
    StreamMessage(
        message_id=MessageID("stream", 0, place, 0, "0xpublisher", "chain"),
        prev_msg_ref=MessageRef(place - 1, 0) if place > 1 else None,
        content="{}",
    )
    for place in range(1, 13)
]

arrivals = st.lists(st.integers(0, len(CHAIN) - 1), max_size=40)


def places(events: list[OrderingEvent]) -> list[int]:
    return [event.message.message_id.timestamp for event in events if isinstance(event, Delivery)]


@settings(deadline=None)
@given(st.permutations(CHAIN[1:]))
def test_any_order_of_arrival_is_delivered_in_order(later: list[StreamMessage]) -> None:
    orderer = Orderer()
    events = [event for message in [CHAIN[0], *later] for event in orderer.add(message, 0)]
    assert places(events) == list(range(1, len(CHAIN) + 1))
    assert orderer.queued_messages == 0
    assert orderer.next_deadline_ms is None


@settings(deadline=None)
@given(arrivals, st.integers(0, 3), st.integers(1, 5), st.integers(0, 30_000))
def test_whatever_arrives_is_delivered_in_order_at_most_once_and_the_queue_is_bounded(
    indices: list[int], max_gap_requests: int, max_queued: int, pause_ms: int
) -> None:
    rules = OrderingRules(max_gap_requests=max_gap_requests, max_queued_messages=max_queued)
    orderer = Orderer(rules)
    seen: list[int] = []
    for step, index in enumerate(indices):
        seen += places(orderer.tick(step * pause_ms) + orderer.add(CHAIN[index], step * pause_ms))
        assert orderer.queued_messages <= max_queued
        assert (orderer.queued_messages > 0) == (orderer.next_deadline_ms is not None)
    assert seen == sorted(set(seen))


@settings(deadline=None)
@given(arrivals.filter(bool))
def test_everything_newer_than_the_first_arrival_is_delivered_in_the_end(indices: list[int]) -> None:
    orderer = Orderer()
    events = [event for index in indices for event in orderer.add(CHAIN[index], 0)]
    while (deadline_ms := orderer.next_deadline_ms) is not None:
        events += orderer.tick(deadline_ms)
    assert places(events) == sorted({index + 1 for index in indices if index >= indices[0]})
    requests = sum(isinstance(event, GapRequest) for event in events)
    assert requests == 10 * sum(isinstance(event, GapLost) for event in events)


@settings(deadline=None)
@given(st.permutations(range(2, 12)))
def test_resend_of_the_requested_range_fills_every_gap(arriving: list[int]) -> None:
    orderer = Orderer()
    events = orderer.add(CHAIN[0], 0)
    for place in arriving[:5]:
        events += orderer.add(CHAIN[place], 0)
    while (deadline_ms := orderer.next_deadline_ms) is not None:
        (request,) = orderer.tick(deadline_ms)
        assert isinstance(request, GapRequest)
        for message in CHAIN:
            if request.from_ref <= message.message_id.ref <= request.to_ref:
                events += orderer.add(message, deadline_ms)
    assert places(events) == list(range(1, max(arriving[:5]) + 2))
