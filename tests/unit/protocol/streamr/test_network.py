"""Frames of the network layer, judged by those that real nodes sent."""

from typing import Any

import pytest

from protocol.errors import Corrupt, Truncated, Unsupported, WireError
from protocol.streamr.control import SubscribeRequest
from protocol.streamr.network import (
    FindStorageNodesMessage,
    InstructionMessage,
    NetworkMessage,
    StatusMessage,
    StorageNodesMessage,
    WrapperMessage,
    parse_network_message,
)
from tests.support.expected_fields import assert_has_fields
from tests.support.streamr_vectors import load_vectors

VECTORS = load_vectors("messages_network")
FRAMES = [vector for vector in VECTORS if vector["type"] != "INVALID"]
INVALID = [vector for vector in VECTORS if vector["type"] == "INVALID"]
DOCUMENT_STATUS = '["4.4.3", 0, "sender", "status"]'
DOCUMENT_WRAPPER = '["4.4.3", 4, "sender", [2, 9, "stream-id", 0, "my-session-token"]]'
DOCUMENT_FORMS = (DOCUMENT_STATUS, DOCUMENT_WRAPPER)
"""Refused by the nodes, which never spoke the documents' arrays; read here, because the documents show them."""


def test_every_vector_is_here() -> None:
    assert (len(FRAMES), len(INVALID)) == (23, 14)
    assert {vector["fields"]["code"] for vector in FRAMES} == {0, 1, 2, 3, 4}
    assert sum(vector["serialized"] == DOCUMENT_STATUS for vector in INVALID) == 4
    assert sum(vector["serialized"] == DOCUMENT_WRAPPER for vector in INVALID) == 3


@pytest.mark.parametrize("vector", FRAMES)
def test_a_real_frame_is_read_to_its_fields_and_written_byte_for_byte(vector: dict[str, Any]) -> None:
    message = parse_network_message(vector["serialized"])
    assert (message.version, type(message).__name__) == (vector["version"], vector["type"])
    assert_has_fields(message, vector["fields"])
    assert message.serialize() == vector["serialized"]


@pytest.mark.parametrize("vector", [vector for vector in INVALID if vector["serialized"] not in DOCUMENT_FORMS])
def test_what_real_nodes_refuse_is_refused(vector: dict[str, Any]) -> None:
    with pytest.raises(WireError):
        parse_network_message(vector["serialized"])


SENT: dict[str, Any] = {"version": "4.4.3", "source": "sender"}
CONTROL = '[2,9,"r","stream-id",0,"my-session-token"]'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('["4.4.3",0,"sender","status"]', StatusMessage(**SENT, status="status")),
        (
            '["4.4.3",1,"sender","stream-id",["address1","address2"]]',
            InstructionMessage(**SENT, stream_id="stream-id", node_addresses=("address1", "address2")),
        ),
        ('["4.4.3",2,"sender","stream-id"]', FindStorageNodesMessage(**SENT, stream_id="stream-id")),
        (
            '["4.4.3",3,"sender","stream-id",["address1"]]',
            StorageNodesMessage(**SENT, stream_id="stream-id", node_addresses=("address1",)),
        ),
        (f'["4.4.3",4,"sender",{CONTROL}]', WrapperMessage(**SENT, control_layer_payload=CONTROL)),
    ],
)
def test_the_documents_arrays_are_read_and_written_on_demand(text: str, expected: NetworkMessage) -> None:
    message = parse_network_message(text)
    assert message == expected
    assert message.serialize(documents=True) == text
    assert message.serialize().startswith('{"version":"4.4.3","code":')


def test_a_frame_without_source_cannot_be_written_as_the_documents_do() -> None:
    with pytest.raises(Unsupported, match="it has no source"):
        StatusMessage(status="status").serialize(documents=True)


def test_the_control_message_within_is_at_hand_and_its_text_is_kept() -> None:
    spaced = '[2, 9, "r", "stream-id", 0, "my-session-token"]'
    wrapper = WrapperMessage(control_layer_payload=spaced)
    assert wrapper.control_message == SubscribeRequest(
        request_id="r", stream_id="stream-id", session_token="my-session-token"
    )
    assert parse_network_message(wrapper.serialize()) == wrapper
    assert "my-session-token" not in repr(wrapper)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"version":"x","code":4,"payload":{"serializedControlLayerPayload":"[2,9]"}}',
         ".payload.serializedControlLayerPayload control_layer_payload: holds no control message"),
        ('{"version":"x","code":1,"payload":{"streamId":"s","nodeAddresses":"a"}}',
         ".payload.nodeAddresses node_addresses: must be an array"),
        ('{"version":"x","code":2,"payload":{}}', ".payload.streamId stream_id: is missing"),
        ('{"version":"x","code":2,"payload":[]}', ".payload payload: must be an object"),
        ('{"version":"x","code":0}', ".payload status: is missing or null"),
        ('["4.4.3",2,"sender"]', "[3] stream_id: is missing"),
        ("5", "network_message: must be an array"),
    ],
)  # fmt: skip
def test_an_error_says_what_is_wrong_and_where(text: str, problem: str) -> None:
    with pytest.raises(Corrupt) as caught:
        parse_network_message(text)
    assert str(caught.value).startswith(problem)


def test_text_that_ends_too_early_is_truncated_and_other_invalid_text_is_corrupt() -> None:
    whole = FRAMES[0]["serialized"]
    for length in range(len(whole)):
        with pytest.raises(Truncated):
            parse_network_message(whole[:length])


def test_a_frame_without_partition_is_about_the_first() -> None:
    message = parse_network_message('{"version":"x","code":2,"payload":{"streamId":"s"}}')
    assert message == FindStorageNodesMessage(version="x", stream_id="s", stream_partition=0)
