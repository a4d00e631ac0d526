"""What the node keeps on its disk: streams, permissions and messages, in one SQLite file."""

from node.storage.database import DATABASE_NAME, reading
from node.storage.messages import Entry
from node.storage.queries import MAX_SEQUENCE_NUMBER, ResendFrom, ResendLast, ResendQuery, ResendRange
from node.storage.registry import PartTotals, read_grants, read_streams, read_totals
from node.storage.storage import Storage, used_bytes

__all__ = [
    "DATABASE_NAME",
    "MAX_SEQUENCE_NUMBER",
    "Entry",
    "PartTotals",
    "ResendFrom",
    "ResendLast",
    "ResendQuery",
    "ResendRange",
    "Storage",
    "read_grants",
    "read_streams",
    "read_totals",
    "reading",
    "used_bytes",
]
