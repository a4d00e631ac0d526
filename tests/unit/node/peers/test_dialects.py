import json
from typing import Any

import pytest

from node.peers.dialects import Dialect, NetworkLayer, Plain
from node.serialization import Broadcast
from protocol.errors import Unsupported, WireError
from protocol.streamr import tracker
from protocol.streamr.control import BroadcastMessage, SubscribeRequest
from protocol.streamr.ids import MessageID
from protocol.streamr.stream_message import EncryptedGroupKey, StreamMessage

MESSAGE = StreamMessage(MessageID("stream", 0, 5, 0, "0xpublisher", "chain"), '{"a":1}')
BROADCAST = Broadcast(MESSAGE, MESSAGE.serialize())
STATUS = tracker.StatusMessage(version=1, request_id="", status={"streams": {}})
INSTRUCTION = tracker.InstructionMessage(
    version=1, request_id="", stream_id="s", stream_partition=2, node_addresses=("ws://a", "ws://b"), counter=7
)
FIND = tracker.StorageNodesRequest(request_id="", stream_id="s", stream_partition=2)
FOUND = tracker.StorageNodesResponse(request_id="", stream_id="s", stream_partition=2, node_addresses=("ws://a",))
SUBSCRIBE = SubscribeRequest(request_id="r", stream_id="stream")


@pytest.mark.parametrize("dialect", [Plain(), NetworkLayer("me")])
@pytest.mark.parametrize("message", [STATUS, INSTRUCTION, FIND, FOUND])
def test_messages_to_and_from_a_tracker_are_read_back_unchanged(
    dialect: Dialect, message: tracker.TrackerMessage
) -> None:
    assert dialect.read_tracker(dialect.write_tracker(message)) == message


@pytest.mark.parametrize("dialect", [Plain(), NetworkLayer("me")])
def test_what_nodes_say_to_each_other_is_read_as_it_was(dialect: Dialect) -> None:
    assert dialect.read_control(dialect.write_control(SUBSCRIBE)) == SUBSCRIBE
    assert dialect.read_control(dialect.write_broadcast(BROADCAST)) == BroadcastMessage(stream_message=MESSAGE)


def test_frames_of_the_network_layer_are_those_of_real_nodes() -> None:
    frames = [json.loads(NetworkLayer("me").write_tracker(message)) for message in (STATUS, INSTRUCTION, FIND, FOUND)]
    about = {"streamId": "s", "streamPartition": 2}
    assert [(frame["code"], frame["payload"]) for frame in frames] == [
        (0, {"streams": {}}),
        (1, {**about, "nodeAddresses": ["ws://a", "ws://b"], "counter": 7}),
        (2, about),
        (3, {**about, "nodeAddresses": ["ws://a"]}),
    ]


def test_control_messages_are_wrapped_as_text() -> None:
    frame = json.loads(NetworkLayer("me").write_control(SUBSCRIBE))
    assert frame["code"] == 4
    assert frame["payload"] == {"serializedControlLayerPayload": '[2,9,"r","stream",0,null]'}


def test_a_peer_that_uses_the_documented_form_is_answered_in_it() -> None:
    dialect = NetworkLayer("me")
    dialect.read_tracker('["4.4.3",2,"sender","stream-id"]')
    assert json.loads(dialect.write_tracker(FOUND))[1:] == [3, "me", "s", ["ws://a"]]
    assert json.loads(dialect.write_control(SUBSCRIBE))[1:4] == [4, "me", [2, 9, "r", "stream", 0, None]]


def payload_of(frame: str) -> list[Any]:
    payload: list[Any] = json.loads(json.loads(frame)["payload"]["serializedControlLayerPayload"])
    return payload


def test_a_peer_that_has_sent_nothing_gets_messages_that_every_release_can_read() -> None:
    payload = payload_of(NetworkLayer("me").write_broadcast(BROADCAST))
    assert (payload[0], payload[2][0]) == (1, 31)
    rotating = MESSAGE.replace(new_group_key=EncryptedGroupKey('["id","00"]'))  # only version 32 holds it
    payload = payload_of(NetworkLayer("me").write_broadcast(Broadcast(rotating, rotating.serialize())))
    assert (payload[0], payload[3][0]) == (2, 32)


def test_a_message_of_an_older_version_does_not_hide_that_the_peer_speaks_a_newer_one() -> None:
    dialect = NetworkLayer("me")
    dialect.read_control(NetworkLayer("peer").write_control(SUBSCRIBE))
    dialect.read_control(NetworkLayer("peer").write_broadcast(BROADCAST))
    assert payload_of(dialect.write_broadcast(BROADCAST))[0] == 2


def test_a_peer_of_control_version_1_gets_messages_that_its_release_can_read() -> None:
    dialect = NetworkLayer("me")
    dialect.read_control(
        '{"version":"13.0.0","code":4,"payload":{"serializedControlLayerPayload":"[1,9,\\"s\\",0,null]"}}'
    )
    payload = payload_of(dialect.write_broadcast(BROADCAST))
    assert payload[:2] == [1, 0]
    assert payload[2][0] == 31


def test_what_an_old_release_cannot_hold_is_not_sent_to_it() -> None:
    dialect = NetworkLayer("me")
    dialect.read_control(
        '{"version":"13.0.0","code":4,"payload":{"serializedControlLayerPayload":"[1,9,\\"s\\",0,null]"}}'
    )
    rotating = MESSAGE.replace(new_group_key=EncryptedGroupKey('["id","00"]'))
    with pytest.raises(Unsupported):
        dialect.write_broadcast(Broadcast(rotating, rotating.serialize()))


def test_relayed_messages_have_no_form_in_the_network_layer() -> None:
    relay = tracker.RelayMessage(request_id="", originator={}, target_node="a", sub_type="rtcOffer", data={})
    with pytest.raises(Unsupported):
        NetworkLayer("me").write_tracker(relay)


@pytest.mark.parametrize(
    "frame",
    [
        "garbage",
        '{"version":"1","code":4,"payload":{"serializedControlLayerPayload":"[]"}}',
        '{"version":"1","code":1,"payload":{"streamId":"s","streamPartition":0,"nodeAddresses":[1]}}',
    ],
)
def test_a_bad_frame_is_a_wire_error_to_nodes_and_trackers(frame: str) -> None:
    for read in (NetworkLayer("me").read_tracker, NetworkLayer("me").read_control):
        with pytest.raises(WireError):
            read(frame)


def test_a_status_is_nothing_that_nodes_say_to_nodes() -> None:
    with pytest.raises(Unsupported):
        NetworkLayer("me").read_control('{"version":"1","code":0,"payload":{}}')
