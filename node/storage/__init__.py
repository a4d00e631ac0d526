"""What the node keeps on its disk: streams, permissions and messages, in one SQLite file."""

from node.storage.database import DATABASE_NAME, open_reader
from node.storage.messages import Entry
from node.storage.queries import ResendFrom, ResendLast, ResendQuery, ResendRange
from node.storage.registry import PartTotals, read_grants, read_streams, read_totals
from node.storage.storage import Storage, used_bytes

__all__ = [
    "DATABASE_NAME",
    "Entry",
    "PartTotals",
    "ResendFrom",
    "ResendLast",
    "ResendQuery",
    "ResendRange",
    "Storage",
    "open_reader",
    "read_grants",
    "read_streams",
    "read_totals",
    "used_bytes",
]
