"""Messages that several tests use."""

from typing import Any

from protocol.iomessage import IoMessage

REQUIRED_FIELDS: dict[str, Any] = {
    "id": "9nY5yQ3rTjUe8mK2pXwVbL7sHcDfGzRaAtBqNhWkPvJx",
    "timestamp": 1_700_000_000_123,
    "publisher": "0xa5374e3c19f15e1847881979dd0c6c9ffe846bd5",
    "info_type": "temperature",
    "info_format": "Cel/cbor",
    "content_data": bytes.fromhex("fb4035800000000000"),
}

EVERY_FIELD: dict[str, Any] = REQUIRED_FIELDS | {
    "tag": "Kessel 3 · Vorlauf",
    "group_id": "boiler",
    "sequence_number": 3,
    "sequence_total": 12,
    "priority": 0,
    "auth_id": "emp-00417",
    "auth_group": "system admin",
    "chain_position": 42,
    "hash": "a3f1" * 16,
    "previous_hash": "0b9e" * 16,
    "nonce": "1234",
    "difficulty_target": 7,
    "context_data": b"\x00\xff{}",
}


def message(**fields: Any) -> IoMessage:
    return IoMessage(**REQUIRED_FIELDS | fields)
