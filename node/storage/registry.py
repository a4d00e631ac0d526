"""Streams and permissions on the disk. Writing runs in the thread of the writing connection."""

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from typing import Final, NamedTuple

from node.limits import Holder
from node.storage.messages import transaction
from node.streams import Grant, Operation, Stream

_SETTINGS: Final = "name, description, partitions, require_signed_data, require_encrypted_data, storage_days"
_PUT_STREAM: Final = f"INSERT INTO streams (id, {_SETTINGS}, owner, origin) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
_CHANGE_STREAM: Final = f"UPDATE streams SET ({_SETTINGS}) = (?, ?, ?, ?, ?, ?) WHERE id = ?"  # noqa: S608
_DECLARE: Final = f"INSERT OR REPLACE INTO streams (id, {_SETTINGS}, declared) VALUES (?, ?, ?, ?, ?, ?, ?, 1)"  # noqa: S608
_PUT_GRANT: Final = """
    INSERT OR IGNORE INTO grants (stream_id, user, operation)
    SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM streams WHERE id = ?1)
"""
_GRANT_NUMBER: Final = "SELECT number FROM grants WHERE stream_id = ? AND user = ? AND operation = ?"
_DELETE_STRAYS: Final = "DELETE FROM grants WHERE stream_id NOT IN (SELECT id FROM streams)"
_DELETE_IF_EMPTY: Final = "DELETE FROM streams WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM parts WHERE stream_id = ?1)"


class StoredStream(NamedTuple):
    stream: Stream
    holder: Holder
    is_declared: bool


class Declared(NamedTuple):
    """The changes made by a declaration of streams."""

    removed_grants: int
    undeclared: list[str]  # streams that were declared before and are no longer


class PartTotals(NamedTuple):
    """The totals of one partition. `stream_id` is None if the stream was deleted."""

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

    def create_stream(self, stream: Stream, grants: list[Grant], holder: Holder) -> list[int]:
        """Create a stream with its first grants. Returns the numbers of the grants."""
        with transaction(self._connection):
            self._connection.execute(_PUT_STREAM, (*astuple(stream), *holder))
            numbers = [self._put_grant(grant) for grant in grants]
            return [number for number in numbers if number is not None]

    def change_stream(self, stream: Stream) -> None:
        stream_id, *settings = astuple(stream)
        self._connection.execute(_CHANGE_STREAM, (*settings, stream_id))

    def declare(self, streams: Sequence[tuple[Stream, list[Grant]]]) -> Declared:
        """Declare exactly these streams, each with exactly these grants."""
        with transaction(self._connection):
            undeclared = self._undeclare_others({stream.id for stream, _ in streams})
            removed = sum(self._delete_grants(stream_id, set()) for stream_id in undeclared)
            for stream, grants in streams:
                self._connection.execute(_DECLARE, astuple(stream))
                removed += self._delete_grants(stream.id, set(grants))
                for grant in grants:
                    self._put_grant(grant)
        return Declared(removed, undeclared)

    def _undeclare_others(self, declared: set[str]) -> list[str]:
        """Undeclare all other streams. Those without messages are deleted."""
        rows = self._connection.execute("SELECT id FROM streams WHERE declared = 1").fetchall()
        undeclared = [stream_id for (stream_id,) in rows if stream_id not in declared]
        for stream_id in undeclared:
            self._connection.execute("UPDATE streams SET declared = 0 WHERE id = ?", (stream_id,))
            self._connection.execute(_DELETE_IF_EMPTY, (stream_id,))
        return undeclared

    def _delete_grants(self, stream_id: str, declared: set[Grant]) -> int:
        """Delete all other grants on the stream. Returns how many."""
        rows = self._connection.execute("SELECT number, user, operation FROM grants WHERE stream_id = ?", (stream_id,))
        extra = [
            (number,)
            for number, user, operation in rows
            if Grant(stream_id, user, Operation(operation)) not in declared
        ]
        self._connection.executemany("DELETE FROM grants WHERE number = ?", extra)
        return len(extra)

    def delete_strays(self) -> int:
        """Delete grants on streams that do not exist. Returns how many."""
        return self._connection.execute(_DELETE_STRAYS).rowcount

    def delete_stream(self, stream_id: str) -> None:
        """Delete a stream and its grants. Retention deletes its messages later, in small steps."""
        with transaction(self._connection):
            self._connection.execute("DELETE FROM streams WHERE id = ?", (stream_id,))
            self._connection.execute("DELETE FROM grants WHERE stream_id = ?", (stream_id,))
            self._connection.execute("UPDATE parts SET stream_id = NULL WHERE stream_id = ?", (stream_id,))

    def put_grant(self, grant: Grant) -> int | None:
        """Store a grant. Returns its number; None if there is no such stream."""
        with transaction(self._connection):
            return self._put_grant(grant)

    def delete_grant(self, number: int) -> None:
        self._connection.execute("DELETE FROM grants WHERE number = ?", (number,))

    def _put_grant(self, grant: Grant) -> int | None:
        self._connection.execute(_PUT_GRANT, grant)
        row = self._connection.execute(_GRANT_NUMBER, grant).fetchone()
        return row and int(row[0])


def read_stored_streams(connection: sqlite3.Connection) -> Iterator[StoredStream]:
    columns = f"SELECT id, {_SETTINGS}, owner, origin, declared FROM streams ORDER BY id"  # noqa: S608 - constants
    for row in connection.execute(columns):
        stream_id, name, description, partitions, signed, encrypted, storage_days, owner, origin, declared = row
        stream = Stream(
            id=stream_id,
            name=name,
            description=description,
            partitions=partitions,
            require_signed_data=bool(signed),
            require_encrypted_data=bool(encrypted),
            storage_days=storage_days,
        )
        yield StoredStream(stream, Holder(owner, origin), bool(declared))


def read_grants(connection: sqlite3.Connection) -> Iterator[tuple[int, Grant]]:
    for number, stream_id, user, operation in connection.execute(
        "SELECT number, stream_id, user, operation FROM grants ORDER BY number"
    ):
        yield number, Grant(stream_id, user, Operation(operation))


def read_totals(connection: sqlite3.Connection) -> list[PartTotals]:
    """The totals of every partition that has or had messages."""
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
