from random import Random
from typing import Any

import pytest

from node.streams import StreamPart
from node.tracker.tracker import REPORT_S, REUNION_S, Outgoing, Peer, Tracker
from protocol.streamr.tracker import (
    ErrorMessage,
    InstructionMessage,
    RelayMessage,
    StatusAckMessage,
    StatusMessage,
    StorageNodesRequest,
    StorageNodesResponse,
    TrackerMessage,
)

PART = StreamPart("stream", 0)


def make_tracker(**options: Any) -> Tracker:
    return Tracker(chance=Random(1), new_request_id=lambda: "r", **options)


def websocket_peer(name: str, *, is_storage: bool = False) -> Peer:
    return Peer(peer_id=name, address=f"ws://{name}", is_storage=is_storage)


def status(linked: list[str], counter: int | None = 0, version: int = 1, **members: Any) -> StatusMessage:
    entry: dict[str, Any] = {"inboundNodes": linked, "outboundNodes": linked}
    if counter is not None:
        entry["counter"] = counter
    return StatusMessage(version=version, request_id="s", status={"streams": {"stream::0": entry}, **members})


def join(tracker: Tracker, *names: str) -> list[Outgoing]:
    outgoing = []
    for name in names:
        outgoing += tracker.connect(websocket_peer(name), 0)
        outgoing += tracker.receive(name, status([]), 0)
    return outgoing


def instructions(outgoing: list[Outgoing]) -> dict[str, InstructionMessage]:
    """The last instruction for each node."""
    return {to: message for to, message in outgoing if isinstance(message, InstructionMessage)}


def only_message(outgoing: list[Outgoing]) -> TrackerMessage:
    [(_, message)] = outgoing
    return message


def test_two_nodes_of_a_partition_are_instructed_with_each_others_address() -> None:
    reported = instructions(join(make_tracker(), "a", "b"))
    assert reported["a"].node_addresses == ("ws://b",)
    assert reported["b"].node_addresses == ("ws://a",)
    assert (reported["a"].stream_id, reported["a"].stream_partition, reported["a"].counter) == ("stream", 0, 1)


def test_nodes_without_an_address_are_instructed_with_ids_in_their_version() -> None:
    tracker = make_tracker()
    outgoing = []
    for name in ("a", "b"):
        outgoing += tracker.connect(Peer(peer_id=name), 0)
        outgoing += tracker.receive(name, status([], version=2, singleStream=True), 0)
    assert instructions(outgoing)["a"].serialize() == '[2,2,"r","stream",0,["b"],1]'


def test_nodes_that_cannot_reach_each_other_are_never_neighbours() -> None:
    tracker = make_tracker()
    join(tracker, "socket")
    tracker.connect(Peer(peer_id="rtc"), 0)
    assert tracker.receive("rtc", status([], version=2), 0) == []
    assert tracker.topology(PART) == {"socket": frozenset(), "rtc": frozenset()}


def test_a_node_that_followed_its_instruction_gets_no_other() -> None:
    tracker = make_tracker()
    join(tracker, "a", "b")
    assert tracker.receive("a", status(["b"], counter=1), 1) == []
    assert tracker.receive("b", status(["a"], counter=1), 1) == []


def test_a_status_from_before_the_last_instruction_moves_nothing() -> None:
    tracker = make_tracker()
    join(tracker, "a", "b", "c")
    before = tracker.topology(PART)
    assert tracker.receive("a", status([], counter=0), 1) == []
    assert tracker.topology(PART) == before


def test_a_link_that_could_not_be_made_is_not_asked_for_again_while_all_hang_together() -> None:
    tracker = make_tracker()
    sent = instructions(join(tracker, "a", "b", "c"))["a"]
    tracker.receive("a", status(["b"], sent.counter), 1)
    assert tracker.topology(PART)["a"] == {"b"}
    assert instructions(join(tracker, "d"))["a"].node_addresses == ("ws://b", "ws://d")


def test_a_link_that_could_not_be_made_is_asked_for_again_where_nothing_else_joins_two_parts() -> None:
    tracker = make_tracker()
    join(tracker, "a", "b")
    reported = instructions(tracker.receive("a", status([], counter=1), 1))
    assert reported["a"].node_addresses == ("ws://b",)
    assert reported["a"].counter == 2


def test_a_link_that_there_is_no_room_for_is_to_be_given_up() -> None:
    tracker = make_tracker(max_neighbours=2)
    sent = instructions(join(tracker, *"abcd"))["a"]
    others = {"b", "c", "d"} - tracker.topology(PART)["a"]
    reported = instructions(tracker.receive("a", status(["b", "c", "d"], sent.counter), 1))
    assert others
    assert reported["a"].node_addresses == sent.node_addresses


def test_when_a_node_leaves_its_neighbours_are_instructed_to_repair_the_graph() -> None:
    tracker = make_tracker(max_neighbours=2)
    join(tracker, *"abcde")
    orphans = tracker.topology(PART)["c"]
    reported = instructions(tracker.disconnect("c", 1))
    assert orphans == set(reported)
    assert all("ws://c" not in message.node_addresses for message in reported.values())


def test_a_node_that_leaves_out_a_partition_has_left_it() -> None:
    tracker = make_tracker()
    join(tracker, "a", "b")
    empty = StatusMessage(version=1, request_id="s", status={"streams": {}})
    assert instructions(tracker.receive("a", empty, 1))["b"].node_addresses == ()
    assert set(tracker.topology(PART)) == {"b"}


def test_a_status_of_one_partition_says_nothing_of_others() -> None:
    tracker = make_tracker()
    join(tracker, "a", "b")
    other = StatusMessage(
        version=2, request_id="s", status={"streams": {"other::1": {"counter": 0}}, "singleStream": True}
    )
    tracker.receive("a", other, 1)
    assert tracker.parts == [StreamPart("other", 1), PART]
    assert "a" in tracker.topology(PART)


def test_counter_minus_one_leaves_the_partition() -> None:
    tracker = make_tracker()
    join(tracker, "a", "b")
    tracker.receive("a", status([], counter=-1, singleStream=True), 1)
    assert set(tracker.topology(PART)) == {"b"}


def test_a_partition_without_nodes_is_removed() -> None:
    tracker = make_tracker()
    join(tracker, "a")
    tracker.disconnect("a", 1)
    assert tracker.parts == []


def test_a_tracker_that_starts_anew_finds_the_network_as_it_is_and_counts_on() -> None:
    tracker = make_tracker()
    for name in "abc":
        tracker.connect(websocket_peer(name), 0)
    assert tracker.receive("a", status(["b"], counter=17), 0) == []
    assert tracker.receive("b", status(["a", "c"], counter=5), 0) == []
    reported = instructions(tracker.receive("c", status(["b"], counter=3), 0))
    assert {name: message.counter for name, message in reported.items()} == {"a": 18, "c": 4}, (
        "a ring is better than a row"
    )


def test_nodes_without_counters_are_instructed_again_until_they_are_linked() -> None:
    tracker = make_tracker()
    for name in ("a", "b"):
        tracker.connect(websocket_peer(name), 0)
        tracker.receive(name, status([], counter=None), 0)
    for _ in range(3):
        assert instructions(tracker.receive("a", status([], counter=None), 1))["a"].node_addresses == ("ws://b",)


def test_storage_nodes_are_in_every_partition_in_any_order_of_connecting() -> None:
    tracker = make_tracker()
    empty = StatusMessage(version=1, request_id="s", status={"streams": {}})
    tracker.connect(websocket_peer("s1", is_storage=True), 0)
    tracker.receive("s1", empty, 0)
    reported = instructions(join(tracker, "a"))
    assert reported["s1"].node_addresses == ("ws://a",)
    assert tracker.connect(websocket_peer("s2", is_storage=True), 0) == []
    later = instructions(tracker.receive("s2", empty, 0))
    assert set(later["s2"].node_addresses) == {"ws://a", "ws://s1"}
    tracker.receive("s2", empty, 1)
    assert "s2" in tracker.topology(PART)


def test_a_storage_node_is_in_no_partition_before_it_has_reported_its_own() -> None:
    tracker = make_tracker()
    tracker.connect(websocket_peer("s", is_storage=True), 0)
    assert instructions(join(tracker, "a", "b")).keys() == {"a", "b"}
    assert instructions(tracker.receive("s", status(["c"]), 0)) == {}  # linked with one that has yet to come


def test_a_storage_node_that_has_nothing_to_report_joins_after_a_while() -> None:
    tracker = make_tracker()
    tracker.connect(websocket_peer("s", is_storage=True), 0)
    join(tracker, "a")
    assert tracker.tick(REPORT_S - 1) == []
    reported = instructions(tracker.tick(REPORT_S))
    assert reported["s"].node_addresses == ("ws://a",)
    assert reported["a"].node_addresses == ("ws://s",)
    assert tracker.tick(2 * REPORT_S) == []


def test_a_tracker_that_has_just_started_cuts_no_link_to_a_node_that_it_has_yet_to_hear_from() -> None:
    tracker = make_tracker()
    for name, linked in (("a", ["b", "c"]), ("b", ["a"]), ("new", [])):
        tracker.connect(websocket_peer(name), 0)
        assert instructions(tracker.receive(name, status(linked, counter=7), 1)) == {}
    tracker.connect(websocket_peer("c"), 2)
    reported = instructions(tracker.receive("c", status(["a"], counter=7), 2))
    assert {"ws://b", "ws://c"} <= set(reported["a"].node_addresses)
    assert reported["a"].counter == 8
    assert reported["new"].node_addresses


def test_a_node_that_does_not_come_back_is_waited_for_only_so_long() -> None:
    tracker = make_tracker()
    for name, linked in (("a", ["gone"]), ("b", [])):
        tracker.connect(websocket_peer(name), 0)
        assert instructions(tracker.receive(name, status(linked), 1)) == {}
    reported = instructions(tracker.receive("b", status([]), REUNION_S))
    assert (reported["a"].node_addresses, reported["b"].node_addresses) == (("ws://b",), ("ws://a",))


def test_a_link_that_is_gone_is_waited_for_no_longer() -> None:
    tracker = make_tracker()
    for name, linked in (("a", ["gone"]), ("b", [])):
        tracker.connect(websocket_peer(name), 0)
        tracker.receive(name, status(linked), 1)
    assert instructions(tracker.receive("a", status([]), 2)).keys() == {"a", "b"}


def test_storage_nodes_are_looked_up() -> None:
    tracker = make_tracker()
    join(tracker, "a")
    tracker.connect(websocket_peer("s", is_storage=True), 0)
    request = StorageNodesRequest(request_id="q", stream_id="stream", stream_partition=0)
    answer = StorageNodesResponse(request_id="q", stream_id="stream", stream_partition=0, node_addresses=("ws://s",))
    assert tracker.receive("a", request, 0) == [Outgoing("a", answer)]


def test_a_status_of_the_newest_form_is_acknowledged() -> None:
    tracker = make_tracker()
    tracker.connect(Peer(peer_id="a"), 0)
    message = StatusMessage(
        request_id="s", status={"streamPart": {"id": "stream", "partition": 0, "neighbors": [], "counter": 0}}
    )
    expected = StatusAckMessage(request_id="s", stream_id="stream", stream_partition=0)
    assert tracker.receive("a", message, 0) == [Outgoing("a", expected)]


def relay(originator: str, target: str) -> RelayMessage:
    return RelayMessage(
        request_id="q", originator={"peerId": originator}, target_node=target, sub_type="rtcOffer", data={}
    )


def test_a_relayed_message_reaches_its_target_in_the_version_that_the_target_speaks() -> None:
    tracker = make_tracker()
    join(tracker, "a", "b")
    [(to, message)] = tracker.receive("a", relay("a", "b"), 0)
    assert to == "b"
    assert isinstance(message, RelayMessage)
    assert message.version == 1


def test_relaying_to_an_unknown_node_is_an_error() -> None:
    tracker = make_tracker()
    join(tracker, "a")
    expected = ErrorMessage(request_id="q", error_code="RTC_UNKNOWN_PEER", target_node="unknown")
    assert only_message(tracker.receive("a", relay("a", "unknown"), 0)) == expected


def test_a_message_relayed_in_the_name_of_another_is_dropped() -> None:
    tracker = make_tracker()
    join(tracker, "a", "b")
    assert tracker.receive("a", relay("b", "b"), 0) == []
    assert tracker.counters["forged_relays"] == 1


@pytest.mark.parametrize("bad", [{"streams": {"no partition": {}}}, {"streams": {"s::0": 5}}])
def test_a_bad_status_is_counted_and_moves_nothing(bad: Any) -> None:
    tracker = make_tracker()
    join(tracker, "a", "b")
    before = tracker.topology(PART)
    assert tracker.receive("a", StatusMessage(version=1, request_id="s", status=bad), 0) == []
    assert tracker.counters["bad_statuses"] == 1
    assert tracker.topology(PART) == before


def test_what_a_node_never_says_to_a_tracker_is_counted() -> None:
    tracker = make_tracker()
    join(tracker, "a")
    message = StatusAckMessage(request_id="", stream_id="s", stream_partition=0)
    assert tracker.receive("a", message, 0) == []
    assert tracker.counters["unexpected_messages"] == 1


def test_no_more_partitions_than_the_limit_are_followed() -> None:
    tracker = make_tracker(max_overlays=1)
    join(tracker, "a")
    other = StatusMessage(version=1, request_id="s", status={"streams": {"other::0": {}}, "singleStream": True})
    assert tracker.receive("a", other, 0) == []
    assert tracker.parts == [PART]
    assert tracker.counters["refused_overlays"] == 1


def test_a_node_that_connects_again_replaces_its_lost_connection() -> None:
    tracker = make_tracker()
    join(tracker, "a", "b")
    reported = instructions(tracker.connect(websocket_peer("a"), 1))
    assert reported["b"].node_addresses == ()
    assert [peer.peer_id for peer in tracker.peers] == ["b", "a"]
