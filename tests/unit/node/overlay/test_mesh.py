from dataclasses import replace
from random import Random

from node.overlay.mesh import (
    DIAL_DELAY_S,
    IDLE_LINK_S,
    IDLE_PART_S,
    MAX_PARTS,
    MAX_PARTS_OF_NEIGHBOURS,
    MAX_PARTS_OF_ONE_ORIGIN,
    Action,
    Dial,
    HangUp,
    Mesh,
    Replay,
    Report,
    Send,
)
from node.peers.connection import RECONNECT
from node.streams import StreamPart
from node.tracker.status import PartStatus
from protocol.streamr.control import SubscribeRequest, UnsubscribeRequest
from protocol.streamr.tracker import InstructionMessage

PART = StreamPart("stream", 0)
A, B, C = "ws://a", "ws://b", "ws://c"


def make_mesh(*, stores_all: bool = True) -> Mesh:
    return Mesh("ws://0", chance=Random(1), stores_all=stores_all)


def instruction(*addresses: str, counter: int = 1) -> InstructionMessage:
    return InstructionMessage(
        version=1, request_id="", stream_id="stream", stream_partition=0, node_addresses=addresses, counter=counter
    )


def subscribe(part: StreamPart = PART) -> SubscribeRequest:
    return SubscribeRequest(request_id="r", stream_id=part.stream_id, stream_partition=part.partition)


def unsubscribe() -> UnsubscribeRequest:
    return UnsubscribeRequest(request_id="r", stream_id="stream", stream_partition=0)


def sent(actions: list[Action]) -> list[tuple[str, type]]:
    return [(action.address, type(action.message)) for action in actions if isinstance(action, Send)]


def linked_mesh(*addresses: str) -> Mesh:
    mesh = make_mesh()
    mesh.instruct(instruction(*addresses), 0)
    for address in addresses:
        mesh.link_up(address, f"id of {address}", 0)
    return mesh


def test_a_partition_that_a_client_requests_is_reported() -> None:
    mesh = make_mesh()
    assert mesh.want(PART, 0, wanted=True) == [Report()]
    assert mesh.status() == {PART: PartStatus(counter=0)}


def test_an_instruction_makes_the_node_dial_and_then_subscribe_and_replay() -> None:
    mesh = make_mesh()
    assert mesh.instruct(instruction(A, B, "ws://0"), 0) == [Report(), Dial(A), Dial(B), Report()]
    actions = mesh.link_up(A, "id of a", 0)
    assert sent(actions) == [(A, SubscribeRequest)]
    assert Replay(A, PART) in actions
    assert mesh.neighbours(PART) == {A}


def test_of_two_instructed_nodes_the_one_with_the_higher_address_waits_for_the_other_to_dial() -> None:
    mesh = Mesh("ws://z", chance=Random(1), stores_all=True)
    assert mesh.instruct(instruction(A, B), 0) == [Report(), Report()]
    mesh.link_up(A, "id of a", 0.1)
    assert mesh.tick(DIAL_DELAY_S) == [Dial(B)]


def test_an_instruction_is_followed_only_when_every_neighbour_was_tried() -> None:
    mesh = make_mesh()
    mesh.instruct(instruction(A, B, counter=7), 0)
    mesh.link_up(A, "id of a", 0)
    assert mesh.status()[PART].counter == 0
    mesh.link_down(B, 0)
    assert mesh.status()[PART] == PartStatus(linked=frozenset({"id of a"}), counter=7)


def test_a_neighbour_that_subscribes_is_linked_without_an_instruction() -> None:
    mesh = make_mesh()
    mesh.link_up(A, "id of a", 0)
    actions = mesh.receive(A, subscribe(), 0)
    assert sent(actions) == []
    assert Replay(A, PART) in actions
    assert mesh.neighbours(PART) == {A}


def test_after_the_end_of_one_of_several_links_subscription_and_recent_messages_go_over_the_one_that_is_left() -> None:
    mesh = linked_mesh(A, B)
    actions = mesh.link_replaced(A)
    assert sent(actions) == [(A, SubscribeRequest)]
    assert Replay(A, PART) in actions
    mesh.link_up(C, "id of c", 0)
    mesh.receive(C, subscribe(), 0)
    assert mesh.link_replaced(C) == [Replay(C, PART)], "it subscribed here; it was not asked to"


def test_a_neighbour_that_the_next_instruction_leaves_out_is_unsubscribed() -> None:
    mesh = linked_mesh(A, B)
    actions = mesh.instruct(instruction(B, counter=2), 1)
    assert sent(actions) == [(A, UnsubscribeRequest)]
    assert mesh.neighbours(PART) == {B}


def test_a_link_is_given_up_only_when_another_is_there() -> None:
    mesh = linked_mesh(A)
    assert sent(mesh.instruct(instruction(B, C, counter=2), 0)) == []
    assert sent(mesh.link_up(B, "b", 0)) == [(B, SubscribeRequest)]
    assert mesh.neighbours(PART) == {A, B}
    assert (A, UnsubscribeRequest) in sent(mesh.link_down(C, 0))
    assert mesh.neighbours(PART) == {B}
    assert mesh.status()[PART].counter == 2


def test_a_link_is_kept_where_no_other_can_be_made() -> None:
    mesh = linked_mesh(A)
    mesh.instruct(instruction(B, counter=2), 0)
    assert sent(mesh.link_down(B, 0)) == []
    assert mesh.status()[PART] == PartStatus(linked=frozenset({f"id of {A}"}), counter=2)
    assert (A, UnsubscribeRequest) in sent(mesh.link_up(B, "b", 1))


def test_a_link_is_given_up_at_once_where_no_neighbour_is_wanted() -> None:
    assert sent(linked_mesh(A).instruct(instruction(counter=2), 0)) == [(A, UnsubscribeRequest)]


def test_a_late_instruction_is_not_followed() -> None:
    mesh = make_mesh()
    mesh.instruct(instruction(A, counter=5), 0)
    assert mesh.instruct(instruction(B, counter=4), 0) == []


def test_a_tracker_that_counts_anew_is_followed() -> None:
    mesh = make_mesh()
    mesh.instruct(instruction(A, counter=5), 0)
    mesh.reset_counters()
    assert Dial(B) in mesh.instruct(instruction(B, counter=1), 0)


def test_a_lost_link_that_is_wanted_is_dialled_again_after_a_delay() -> None:
    mesh = linked_mesh(A)
    assert mesh.link_down(A, 100) == [Report()]
    assert mesh.neighbours(PART) == frozenset()
    assert mesh.tick(100) == []
    assert mesh.tick(100 + RECONNECT.max_s) == [Dial(A)]


def test_an_instruction_does_not_shorten_the_delay_of_a_neighbour_that_fails() -> None:
    mesh = make_mesh()
    mesh.instruct(instruction(A), 0)
    mesh.link_down(A, 0)
    assert Dial(A) not in mesh.instruct(instruction(A, counter=2), 0)


def test_a_lost_link_that_is_no_longer_instructed_is_not_dialled() -> None:
    mesh = linked_mesh(A)
    mesh.link_down(A, 0)
    mesh.instruct(instruction(counter=2), 0)
    assert mesh.tick(RECONNECT.max_s) == []


def test_a_neighbour_that_unsubscribes_is_let_go() -> None:
    mesh = linked_mesh(A)
    assert mesh.receive(A, unsubscribe(), 0) == [Report()]
    assert mesh.neighbours(PART) == frozenset()


def test_a_link_that_serves_nothing_is_closed_after_a_while_but_not_one_that_does() -> None:
    mesh = linked_mesh(A, B)
    mesh.receive(A, unsubscribe(), 5)
    assert mesh.tick(5 + IDLE_LINK_S - 1) == []
    assert mesh.tick(5 + IDLE_LINK_S) == [HangUp(A)]
    assert mesh.receive(A, subscribe(), 5 + IDLE_LINK_S) == [], "what was still on its way"


def test_a_node_that_stores_all_never_leaves_a_partition() -> None:
    mesh = make_mesh(stores_all=True)
    mesh.use(PART, 0)
    mesh.tick(IDLE_PART_S * 2)
    assert mesh.parts == [PART]


def test_another_node_leaves_what_it_has_not_used_for_a_while() -> None:
    mesh = make_mesh(stores_all=False)
    mesh.instruct(instruction(A), 0)
    mesh.link_up(A, "id of a", 0)
    mesh.want(PART, 0, wanted=True)
    mesh.tick(IDLE_PART_S * 2)
    assert mesh.parts == [PART]
    mesh.want(PART, 5000, wanted=False)
    actions = mesh.tick(5000 + IDLE_PART_S + 1)
    assert sent(actions) == [(A, UnsubscribeRequest)]
    assert mesh.parts == []


def test_neighbours_of_one_machine_add_a_limited_number_of_partitions() -> None:
    mesh = make_mesh()
    mesh.link_up(A, "id of a", 0, origin="10.0.0.1")
    mesh.link_up(B, "id of b", 0, origin="10.0.0.1")
    for number in range(MAX_PARTS_OF_ONE_ORIGIN):
        mesh.receive(A if number % 2 else B, subscribe(StreamPart("flood", number)), 0)
    mesh.receive(B, subscribe(StreamPart("one more", 0)), 0)
    mesh.use(StreamPart("published to", 0), 0, added_by="10.0.0.1")

    assert len(mesh.parts) == MAX_PARTS_OF_ONE_ORIGIN
    mesh.link_up(C, "id of c", 0, origin="10.0.0.2")
    mesh.receive(C, subscribe(PART), 0)
    assert PART in mesh.parts


def test_all_neighbours_together_leave_space_for_clients_and_the_tracker() -> None:
    mesh = make_mesh()
    for number in range(MAX_PARTS):
        mesh.use(StreamPart("flood", number), 0, added_by=f"10.0.0.{number % 100}")
    assert len(mesh.parts) == MAX_PARTS_OF_NEIGHBOURS

    mesh.want(PART, 0, wanted=True)
    mesh.instruct(replace(instruction(B), stream_id="reported"), 0)
    assert PART in mesh.parts
    assert StreamPart("reported", 0) in mesh.parts


def test_a_partition_that_a_client_requests_as_well_is_charged_to_no_neighbour_any_more() -> None:
    mesh = make_mesh()
    for number in range(MAX_PARTS_OF_ONE_ORIGIN):
        mesh.use(StreamPart("flood", number), 0, added_by="10.0.0.1")
    mesh.want(StreamPart("flood", 7), 0, wanted=True)
    mesh.use(PART, 0, added_by="10.0.0.1")

    assert PART in mesh.parts


def test_a_storage_node_leaves_what_only_a_neighbour_added_and_may_add_it_again() -> None:
    mesh = make_mesh(stores_all=True)
    for number in range(MAX_PARTS_OF_ONE_ORIGIN):
        mesh.use(StreamPart("flood", number), 0, added_by="10.0.0.1")
    mesh.use(PART, 0)
    mesh.tick(IDLE_PART_S + 1)

    assert mesh.parts == [PART]
    mesh.use(StreamPart("flood", 1), 0, added_by="10.0.0.1")
    assert len(mesh.parts) == 2


def test_a_neighbour_cannot_add_a_name_that_no_stream_can_have() -> None:
    mesh = make_mesh()
    mesh.link_up(A, "id of a", 0)
    mesh.receive(A, subscribe(StreamPart("x" * 100_000, 0)), 0)

    assert mesh.parts == []


def test_no_more_partitions_than_the_limit_are_entered() -> None:
    mesh = make_mesh()
    for number in range(MAX_PARTS + 1):
        mesh.want(StreamPart("stream", number), 0, wanted=True)
    assert len(mesh.parts) == MAX_PARTS
    assert mesh.instruct(replace(instruction(B), stream_id="new"), 0) == []
