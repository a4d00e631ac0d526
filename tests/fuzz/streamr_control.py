"""Fuzz the control layer: any text gives a message or a WireError, and what is written is read again."""

from protocol.errors import WireError
from protocol.streamr.control import parse_control_message
from tests.support.streamr_vectors import load_vectors

SEEDS = [
    vector["serialized"].encode() for version in (0, 1, 2) for vector in load_vectors(f"messages_control_v{version}")
]


def fuzz_one(data: bytes) -> None:
    for documents in (False, True):
        try:
            text = parse_control_message(data, documents=documents).serialize()
        except WireError:
            continue
        assert parse_control_message(text, documents=documents).serialize() == text
