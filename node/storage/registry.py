"""Streams and permissions on the disk. Writing runs in the thread of the writing connection."""

import sqlite3
from collections.abc import Iterator
from dataclasses import astuple
from typing import Final, NamedTuple

from node.storage.messages import transaction
from node.streams import Grant, Operation, Stream

__all__ = ["PartTotals", "RegistryTables", "read_grants", "read_streams", "read_totals"]

_PUT_STREAM: Final = "INSERT OR REPLACE INTO streams VALUES (?, ?, ?, ?, ?, ?, ?)"
_PUT_GRANT: Final = "INSERT OR IGNORE INTO grants (stream_id, user, operation) VALUES (?, ?, ?)"
_GRANT_NUMBER: Final = "SELECT number FROM grants WHERE stream_id = ? AND user = ? AND operation = ?"


class PartTotals(NamedTuple):
    """What one partition holds. `stream_id` is None where the stream was deleted and the messages will be."""

    number: int
    stream_id: str | None
    partition: int
    messages: int
    bytes: int
    oldest_ms: int | None  # by the messages' own time
    newest_ms: int | None
    stored_since_s: int | None  # when the first of them was stored


class RegistryTables:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def put_stream(self, stream: Stream, grants: list[Grant]) -> list[int]:
        """Make or change a stream, together with the first grants on it. The numbers of the grants."""
        with transaction(self._connection):
            self._connection.execute(_PUT_STREAM, astuple(stream))
            return [self._put_grant(grant) for grant in grants]

    def delete_stream(self, stream_id: str) -> None:
        """Its messages no longer belong to anything; retention deletes them bit by bit."""
        with transaction(self._connection):
            self._connection.execute("DELETE FROM streams WHERE id = ?", (stream_id,))
            self._connection.execute("DELETE FROM grants WHERE stream_id = ?", (stream_id,))
            self._connection.execute("UPDATE parts SET stream_id = NULL WHERE stream_id = ?", (stream_id,))

    def put_grant(self, grant: Grant) -> int:
        with transaction(self._connection):
            return self._put_grant(grant)

    def delete_grant(self, number: int) -> None:
        with transaction(self._connection):
            self._connection.execute("DELETE FROM grants WHERE number = ?", (number,))

    def _put_grant(self, grant: Grant) -> int:
        self._connection.execute(_PUT_GRANT, grant)
        return int(self._connection.execute(_GRANT_NUMBER, grant).fetchone()[0])


def read_streams(connection: sqlite3.Connection) -> Iterator[Stream]:
    for row in connection.execute("SELECT * FROM streams ORDER BY id"):
        stream_id, name, description, partitions, signed, encrypted, storage_days = row
        yield Stream(
            id=stream_id,
            name=name,
            description=description,
            partitions=partitions,
            require_signed_data=bool(signed),
            require_encrypted_data=bool(encrypted),
            storage_days=storage_days,
        )


def read_grants(connection: sqlite3.Connection) -> Iterator[tuple[int, Grant]]:
    for number, stream_id, user, operation in connection.execute(
        "SELECT number, stream_id, user, operation FROM grants ORDER BY number"
    ):
        yield number, Grant(stream_id, user, Operation(operation))


def read_totals(connection: sqlite3.Connection) -> list[PartTotals]:
    """Every partition that holds or held messages."""
    rows = connection.execute(
        """
        SELECT number, stream_id, partition, messages, bytes,
            (SELECT min(timestamp) FROM messages WHERE part = parts.number),
            (SELECT max(timestamp) FROM messages WHERE part = parts.number),
            (SELECT min(stored_at_s) FROM messages WHERE part = parts.number)
        FROM parts ORDER BY stream_id, partition
        """
    )
    return [PartTotals(*row) for row in rows]
