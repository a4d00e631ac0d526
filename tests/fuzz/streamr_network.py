"""Fuzz the network layer: any text gives a frame or a WireError, and a frame survives being written."""

from protocol.errors import WireError
from protocol.streamr.network import parse_network_message
from tests.support.streamr_vectors import load_vectors

SEEDS = [vector["serialized"].encode() for vector in load_vectors("messages_network")]


def fuzz_one(data: bytes) -> None:
    try:
        message = parse_network_message(data)
    except WireError:
        return
    text = message.serialize()
    assert parse_network_message(text).serialize() == text
    if message.source is not None:
        assert parse_network_message(message.serialize(documents=True)) == message
