"""Fuzz the tracker layer: any text gives a message or a WireError, and what is written is read again."""

from protocol.errors import WireError
from protocol.streamr.tracker import parse_tracker_message
from tests.support.streamr_vectors import load_vectors

SEEDS = [vector["serialized"].encode() for vector in load_vectors("messages_tracker")]


def fuzz_one(data: bytes) -> None:
    for documents in (False, True):
        try:
            text = parse_tracker_message(data, documents=documents).serialize()
        except WireError:
            continue
        assert parse_tracker_message(text, documents=documents).serialize() == text
