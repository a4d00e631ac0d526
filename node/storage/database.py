"""The node's one file: an SQLite database in write-ahead mode.

Promises: what was committed survives the death of the process and of the power (`synchronous=FULL`); a reader never
waits for the writer, nor the writer for a reader. One connection writes, from one thread; others only read.

| table | one row per |
|---|---|
| `streams` | stream, with its settings |
| `grants` | permission |
| `parts` | stream partition with messages, with its totals; one whose stream was deleted belongs to no stream |
| `chains` | chain in a partition: a publisher, in lower case, and its chain id |
| `messages` | message, found in the order in which it is resent: by time, sequence number, chain; `body` is its text |

Bodies lie in the order of arrival, apart from the index that orders them: a table ordered by a key of several columns
would keep longer bodies on pages of their own, at four times the space. `stored_at_s` is when a message came, by the
node's clock, and never goes back: age is counted from then on, whatever time the message itself tells.
"""

import sqlite3
from pathlib import Path
from typing import Final

from node.errors import StorageError

__all__ = ["DATABASE_NAME", "MAX_INTEGER", "open_reader", "open_writer"]

DATABASE_NAME: Final = "node.sqlite3"
SCHEMA_VERSION: Final = 1
MAX_INTEGER: Final = 2**63 - 1  # the largest that SQLite holds
BUSY_TIMEOUT_S: Final = 10.0
CACHE_KIB: Final = 4_096
WAL_PAGES_BEFORE_CHECKPOINT: Final = 2_000

SCHEMA: Final = f"""
BEGIN;
CREATE TABLE streams (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, description TEXT NOT NULL, partitions INTEGER NOT NULL,
    require_signed_data INTEGER NOT NULL, require_encrypted_data INTEGER NOT NULL, storage_days INTEGER
) WITHOUT ROWID;
CREATE TABLE grants (
    number INTEGER PRIMARY KEY AUTOINCREMENT, stream_id TEXT NOT NULL, user TEXT NOT NULL, operation TEXT NOT NULL,
    UNIQUE (stream_id, user, operation)
);
CREATE TABLE parts (
    number INTEGER PRIMARY KEY AUTOINCREMENT, stream_id TEXT, partition INTEGER NOT NULL,
    messages INTEGER NOT NULL DEFAULT 0, bytes INTEGER NOT NULL DEFAULT 0, UNIQUE (stream_id, partition)
);
CREATE TABLE chains (
    number INTEGER PRIMARY KEY AUTOINCREMENT, part INTEGER NOT NULL, publisher TEXT NOT NULL, chain TEXT NOT NULL,
    UNIQUE (part, publisher, chain)
);
CREATE TABLE messages (
    number INTEGER PRIMARY KEY, part INTEGER NOT NULL, timestamp INTEGER NOT NULL, sequence INTEGER NOT NULL,
    chain INTEGER NOT NULL, stored_at_s INTEGER NOT NULL, body TEXT NOT NULL,
    UNIQUE (part, timestamp, sequence, chain)
);
CREATE INDEX messages_by_arrival ON messages (part, stored_at_s);
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""


def open_writer(directory: Path) -> sqlite3.Connection:
    """The connection that writes; makes the directory and the tables where there are none.

    Raises: `StorageError` where the file cannot be used.
    """
    path = directory / DATABASE_NAME
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o750)
        connection = _connect(f"{path.absolute().as_uri()}?mode=rwc")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES_BEFORE_CHECKPOINT}")
        if connection.execute("PRAGMA user_version").fetchone() == (0,):
            connection.executescript(SCHEMA)
    except (OSError, sqlite3.Error) as problem:
        raise StorageError(f"{path}: cannot be opened: {problem}") from problem
    _check_version(connection, path)
    return connection


def open_reader(directory: Path) -> sqlite3.Connection:
    """A connection that can change nothing. Raises: `StorageError` where there is no such database."""
    path = directory / DATABASE_NAME
    try:
        connection = _connect(f"{path.absolute().as_uri()}?mode=ro")
        _check_version(connection, path)
    except sqlite3.Error as problem:
        raise StorageError(f"{path}: cannot be read: {problem}; is this the data directory of a node?") from problem
    return connection


def _connect(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    return connection


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != SCHEMA_VERSION:
        raise StorageError(f"{path}: has tables of version {version}; this node knows version {SCHEMA_VERSION}")
