"""Tracker messages, judged by what real releases wrote."""

from typing import Any

import pytest

from protocol.errors import Corrupt, Truncated, Unsupported
from protocol.streamr.tracker import (
    InstructionMessage,
    RelayMessage,
    StatusAckMessage,
    StatusMessage,
    StorageNodesRequest,
    StorageNodesResponse,
    TrackerMessage,
    parse_tracker_message,
)
from tests.support.expected_fields import assert_has_fields
from tests.support.streamr_vectors import load_vectors

VECTORS = load_vectors("messages_tracker")


def test_every_vector_is_here() -> None:
    assert len(VECTORS) == 83
    types = {(vector["version"], vector["type"]) for vector in VECTORS}
    assert len(types) == 6 + 5


@pytest.mark.parametrize("vector", VECTORS)
def test_a_real_message_is_read_to_its_fields_and_written_byte_for_byte(vector: dict[str, Any]) -> None:
    message = parse_tracker_message(vector["serialized"])
    assert (message.version, type(message).__name__) == (vector["version"], vector["type"])
    assert_has_fields(message, vector["fields"])
    assert message.serialize() == vector["serialized"]


NODES = ("ws://address1", "ws://address2")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '[2,14,{"streams":[],"started":0,"rtts":{}}]',
            StatusMessage(version=1, request_id="", status={"streams": [], "started": 0, "rtts": {}}),
        ),
        (
            '[2,15,"r","s",0,["ws://address1","ws://address2"],10]',
            InstructionMessage(
                version=1, request_id="r", stream_id="s", stream_partition=0, node_addresses=NODES, counter=10
            ),
        ),
        ('[2,16,"r","s",0]', StorageNodesRequest(request_id="r", stream_id="s", stream_partition=0)),
        (
            '[2,17,"r","s",0,["ws://address1","ws://address2"]]',
            StorageNodesResponse(request_id="r", stream_id="s", stream_partition=0, node_addresses=NODES),
        ),
    ],
)
def test_the_documents_examples_are_read_and_written_as_real_peers_do(text: str, expected: TrackerMessage) -> None:
    message = parse_tracker_message(text)
    assert message == expected
    assert parse_tracker_message(message.serialize()) == expected
    assert message.serialize().startswith(f"[1,{int(message.type)},")


def test_what_the_document_leaves_out_is_completed_on_demand() -> None:
    status = parse_tracker_message('[1,1,{"streams":[]}]', documents=True)
    assert status == StatusMessage(version=1, request_id="", status={"streams": []})
    for text in ('[1,3,"r","s"]', '[1,3,"r","s",null]'):
        with pytest.raises(Corrupt, match=r"^\[4\] stream_partition"):
            parse_tracker_message(text)
        assert parse_tracker_message(text, documents=True).serialize() == '[1,3,"r","s",0]'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[1,2,"r","s",0,["a",5],1]', "[5] node_addresses: must be an array of strings"),
        ('[1,5,"r",null,"t","rtcOffer",{}]', "[3] originator: must be JSON other than null"),
        ('[1,6,"r","OTHER","t"]', "[3] error_code: must be RTC_UNKNOWN_PEER"),
        (f'[1,1,"r",{"[" * 300}{"]" * 300}]', "[3] status: is not JSON that can be written"),
        ("{}", "tracker_message: must be an array"),
    ],
)
def test_an_error_says_what_is_wrong_and_where(text: str, problem: str) -> None:
    with pytest.raises(Corrupt) as caught:
        parse_tracker_message(text)
    assert str(caught.value).startswith(problem)


@pytest.mark.parametrize("text", ["[]", "[3,1]", "[1,7]", "[2,3]", "[1,14]", "[2,[]]", '["1",1]', "[true,1]"])
def test_an_unknown_version_or_type_is_unsupported_and_not_corrupt(text: str) -> None:
    with pytest.raises(Unsupported):
        parse_tracker_message(text)


def test_text_that_ends_too_early_is_truncated_and_other_invalid_text_is_corrupt() -> None:
    whole = '[1,1,"r",{"streams":["a"],"started":12}]'
    for length in range(len(whole)):
        with pytest.raises(Truncated):
            parse_tracker_message(whole[:length])


def test_a_message_is_written_in_the_versions_that_know_it() -> None:
    relay = RelayMessage(request_id="r", originator={}, target_node="t", sub_type="rtcOffer", data={"a": 1})
    assert relay.serialize() == '[2,5,"r",{},"t","rtcOffer",{"a":1}]'
    assert relay.serialize(version=1) == '[1,5,"r",{},"t","rtcOffer",{"a":1}]'
    with pytest.raises(Unsupported, match="StatusAckMessage cannot be written as version 1"):
        StatusAckMessage(request_id="r", stream_id="s", stream_partition=0).serialize(version=1)
    with pytest.raises(ValueError, match=r"^version: must be one that knows type 3"):
        StorageNodesRequest(version=2, request_id="r", stream_id="s", stream_partition=0)


def test_messages_with_json_inside_can_be_kept_in_sets() -> None:
    statuses = {
        StatusMessage(request_id="r", status={"a": [1]}),
        StatusMessage(request_id="r", status={"a": [2]}),
    }
    assert len(statuses) == 2
