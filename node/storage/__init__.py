"""The node's storage: streams, permissions and messages, in one SQLite file."""

from node.storage.database import DATABASE_NAME, reading
from node.storage.messages import Charge, Entry, Outcome
from node.storage.queries import MAX_SEQUENCE_NUMBER, ResendLast, ResendQuery, ResendRange
from node.storage.registry import (
    PartTotals,
    StoredStream,
    read_grants,
    read_stored_streams,
    read_totals,
)
from node.storage.storage import Storage, used_bytes

__all__ = [
    "DATABASE_NAME",
    "MAX_SEQUENCE_NUMBER",
    "Charge",
    "Entry",
    "Outcome",
    "PartTotals",
    "ResendLast",
    "ResendQuery",
    "ResendRange",
    "Storage",
    "StoredStream",
    "read_grants",
    "read_stored_streams",
    "read_totals",
    "reading",
    "used_bytes",
]
