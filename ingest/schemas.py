"""Every table's columns, in order. docs/ingest.md explains each; nothing else in the ingest invents one.

Columns are only ever added, at the end and nullable, so that files of every release are read together.
"""

from typing import Final

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_TEXT: Final = StringType()
_LONG: Final = LongType()
_INT: Final = IntegerType()
_TIME: Final = TimestampType()
_BYTES: Final = BinaryType()
_FLOAT: Final = DoubleType()


def _schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


_WHERE_FOUND: Final = {
    "archive": _TEXT,  # SHA-256 of the archive, in hex
    "record": _INT,  # its number within the archive, from 0
    "device": _TEXT,  # address, lower case
    "chain": _TEXT,  # the device's own name of the chain
    "timestamp_ms": _LONG,  # of the message id
    "sequence": _LONG,
    "arrived_at": _TIME,  # by the device's clock
    "landed_at": _TIME,  # by the collector's clock
}

MESSAGE_COLUMNS: Final = {
    **_WHERE_FOUND,
    "stream_id": _TEXT,
    "stream_partition": _INT,
    "msg_chain_id": _TEXT,
    "previous_timestamp_ms": _LONG,
    "previous_sequence": _LONG,
    "content_state": _TEXT,  # plain, decrypted, locked (no key), or other (no ioMessage is expected)
    "message_id": _TEXT,
    "element": _TEXT,  # Publisher
    "sensor": _TEXT,  # Tag; Publisher where there is none
    "group_id": _TEXT,
    "priority": _INT,
    "quantity": _TEXT,  # InfoType
    "format": _TEXT,  # InfoFormat
    "unit": _TEXT,
    "value": _FLOAT,
    "value_integer": _LONG,
    "value_text": _TEXT,
    "value_boolean": BooleanType(),
    "content": _BYTES,  # of what is no scalar
    "chain_position": _LONG,
    "hash": _BYTES,
    "link": _TEXT,  # first, linked, forked, unlinked
    "clock": _TEXT,  # synchronised, corrected, unsynchronised
    "boot": _TEXT,
    "monotonic_ms": _LONG,
    "event_time": _TIME,
    "signed_digest": _BYTES,  # of the text that the signature covers
    "reading": _INT,  # its index in its message, from 0
    "readings": _INT,  # how many its message has
}
QUARANTINE_COLUMNS: Final = {
    **_WHERE_FOUND,
    "path": _TEXT,
    "offset": _LONG,  # in the archive: of the record's block, or of the damage
    "records": _INT,  # how many messages this row stands for; null where that is unknown
    "readings": _LONG,  # how many readings these have
    "reason": _TEXT,
    "detail": _TEXT,
    "bytes": _BYTES,
}

MESSAGES: Final = _schema(**MESSAGE_COLUMNS, date=DateType())
QUARANTINE: Final = _schema(**QUARANTINE_COLUMNS)
DECODED: Final = _schema(kind=_TEXT, **QUARANTINE_COLUMNS, summary=_TEXT, file=_TEXT)

GAPS: Final = _schema(
    device=_TEXT,
    chain=_TEXT,
    after_timestamp_ms=_LONG,  # the last message before the hole; null where nothing before it is known
    after_sequence=_LONG,
    last_timestamp_ms=_LONG,  # the last message that is missing
    last_sequence=_LONG,
    before_timestamp_ms=_LONG,  # the first message after the hole
    before_sequence=_LONG,
    missing=_LONG,  # how many, by the chain positions; null where these do not tell
    explained=_LONG,  # how many of them the device gave up, as it says in signed notices
    held=_LONG,  # how many of them are in quarantine
    cause=_TEXT,  # of the notices, or that an archive is missing; null where nothing explains the hole
    state=_TEXT,  # open, or closed since an archive filled it
    log=_TEXT,  # these four of a gap in a device log, which has no chain: an archive did not arrive
    lane=_INT,
    first_position=_LONG,
    next_position=_LONG,
)
LOGS: Final = _schema(
    device=_TEXT,
    log=_TEXT,
    lane=_INT,
    journal=_TEXT,
    previous_log=_TEXT,  # the log that this one continues
    produced=_LONG,  # this and the next six: readings
    arrived=_LONG,
    lost_explained=_LONG,
    lost_unexplained=_LONG,
    missing=_LONG,  # that no archive brought which should have arrived
    on_device=_LONG,  # by the newest checkpoint
    archives=_LONG,
    missing_archives=_TEXT,  # their numbers; some may still be on the device
    checkpoint_at=_TIME,  # of the newest checkpoint, by the device's clock
    abandoned=BooleanType(),  # the device went on with another log
    forked=BooleanType(),  # two archives or checkpoints contradict each other
    complete=BooleanType(),
)
ROLLUPS: Final = _schema(
    device=_TEXT,
    sensor=_TEXT,
    quantity=_TEXT,
    unit=_TEXT,
    minute=_TIME,
    count=_LONG,
    min=_FLOAT,
    max=_FLOAT,
    sum=_FLOAT,
    mean=_FLOAT,
    last=_FLOAT,
    last_time=_TIME,
    date=DateType(),
)
LEDGER: Final = _schema(
    device=_TEXT,
    chain=_TEXT,
    produced=_LONG,
    archived=_LONG,
    ingested=_LONG,
    duplicate=_LONG,
    quarantined=_LONG,
    held=_LONG,
    lost_explained=_LONG,
    lost_unexplained=_LONG,
    broken_links=_LONG,
    archives=_LONG,
    balanced=BooleanType(),
)
ARCHIVES: Final = _schema(
    archive=_TEXT,
    path=_TEXT,
    device=_TEXT,
    journal=_TEXT,
    created_at=_TIME,
    landed_at=_TIME,
    size_bytes=_LONG,
    records=_LONG,  # messages, as its manifest says; null where that could not be read
    readings=_LONG,  # so too
    verdict=_TEXT,  # verified, damaged, duplicate, unlocked, or the reason for which all of it is in quarantine
    locked=_TEXT,  # the keys that are missing for some of its messages, and their times, in JSON; null where none is
)

TABLES: Final = {
    "messages": MESSAGES,
    "quarantine": QUARANTINE,
    "gaps": GAPS,
    "rollups": ROLLUPS,
    "ledger": LEDGER,
    "logs": LOGS,
    "archives": ARCHIVES,
}
MESSAGES_IN_FILES: Final = _schema(**MESSAGE_COLUMNS)
PARTITIONED: Final = frozenset({"messages", "rollups"})  # by date, which then stands in the path and not in the file
