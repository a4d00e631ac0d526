"""Fuzz the stream layer: any text gives a message or a WireError, and a message survives being written."""

from protocol.errors import Unsupported, WireError
from protocol.streamr.stream_message import parse_stream_message
from tests.support.streamr_vectors import load_vectors

SEEDS = [vector["serialized"].encode() for vector in load_vectors("messages_stream")]


def fuzz_one(data: bytes) -> None:
    for draft in (False, True):
        try:
            message = parse_stream_message(data, draft=draft)
        except WireError:
            continue
        for version in (None, 28, 29, 30, 31, 32):
            try:
                text = message.serialize(version)
            except Unsupported:
                continue
            again = parse_stream_message(text, draft=draft)
            assert again == message or version is not None
            assert again.serialize() == text
