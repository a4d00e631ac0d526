"""The database of the node: one SQLite file in write-ahead mode.

Promises: committed data survives the end of the process and a power cut (`synchronous=FULL`); readers and the writer
never wait for each other. One connection writes, from one thread; others only read. One node uses the directory at a
time.

| table | one row per |
|---|---|
| `streams` | stream: its settings, its owner, the address it was made from, whether the configuration declares it |
| `grants` | permission |
| `parts` | stream partition with messages, with its totals; one whose stream was deleted belongs to no stream |
| `chains` | chain with messages: its partition, publisher in lower case, id, the user that is charged, totals |
| `messages` | message, found in the order in which it is resent: by time, sequence number, chain; `body` is its text |

Bodies are stored in order of arrival, and ordered by an index: a table with a key of several columns would store longer
bodies on extra pages, in four times the space. `stored_at_s` is the time of arrival by the clock of the node; it never
decreases, and retention counts from it, whatever the timestamp of the message. The number of a message is never reused,
so that it can be its offset (`node.storage.arrival_queries`).
"""

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final

from node.errors import DataInUse, StorageError

DATABASE_NAME: Final = "node.sqlite3"
LOCK_NAME: Final = "node.lock"
SCHEMA_VERSION: Final = 2
MAX_INTEGER: Final = 2**63 - 1  # the largest that SQLite holds
BUSY_TIMEOUT_S: Final = 10.0
CACHE_KIB: Final = 4_096
WAL_PAGES_BEFORE_CHECKPOINT: Final = 2_000

SCHEMA: Final = f"""
BEGIN;
CREATE TABLE streams (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, description TEXT NOT NULL, partitions INTEGER NOT NULL,
    require_signed_data INTEGER NOT NULL, require_encrypted_data INTEGER NOT NULL, storage_days INTEGER,
    owner TEXT NOT NULL DEFAULT '', origin TEXT NOT NULL DEFAULT '', declared INTEGER NOT NULL DEFAULT 0
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
    owner TEXT NOT NULL, origin TEXT NOT NULL, messages INTEGER NOT NULL DEFAULT 0, bytes INTEGER NOT NULL DEFAULT 0,
    UNIQUE (part, publisher, chain)
);
CREATE TABLE messages (
    number INTEGER PRIMARY KEY AUTOINCREMENT, part INTEGER NOT NULL, timestamp INTEGER NOT NULL,
    sequence INTEGER NOT NULL, chain INTEGER NOT NULL, stored_at_s INTEGER NOT NULL, body TEXT NOT NULL,
    UNIQUE (part, timestamp, sequence, chain)
);
CREATE INDEX messages_by_arrival ON messages (part, stored_at_s);
CREATE INDEX empty_chains ON chains (messages) WHERE messages <= 0;
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""


def lock_directory(directory: Path) -> int:
    """Create the directory if it is missing, and lock it. Returns the descriptor of the lock.

    Raises: `DataInUse` if another node has locked it; OSError.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o750)
    descriptor = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise DataInUse(f"{directory}: another node uses this directory; stop it, or choose another --data") from None
    return descriptor


def open_writer(directory: Path) -> sqlite3.Connection:
    """Open the connection that writes, and create missing tables. Raises: `StorageError`."""
    path = directory / DATABASE_NAME
    with _opening(path, "rwc", "cannot be opened") as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES_BEFORE_CHECKPOINT}")
        if connection.execute("PRAGMA user_version").fetchone() == (0,):
            connection.executescript(SCHEMA)
        _check_version(connection, path)
    return connection


def open_reader(directory: Path) -> sqlite3.Connection:
    """Open a read-only connection. Raises: `StorageError` if there is no database."""
    path = directory / DATABASE_NAME
    with _opening(path, "ro", "cannot be read; is this the data directory of a node?") as connection:
        _check_version(connection, path)
    return connection


@contextmanager
def _opening(path: Path, mode: str, problem: str) -> Iterator[sqlite3.Connection]:
    """A new connection, which is closed if the block raises. Raises: `StorageError`."""
    with ExitStack() as undo:
        try:
            uri = f"{path.absolute().as_uri()}?mode={mode}"
            connection = sqlite3.connect(
                uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
            undo.callback(connection.close)
            connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            yield connection
        except sqlite3.Error as error:
            raise StorageError(f"{path}: {problem}: {error}") from error
        undo.pop_all()


@contextmanager
def reading(directory: Path) -> Iterator[sqlite3.Connection]:
    """A read-only connection for the block. Raises: `StorageError`."""
    with closing(open_reader(directory)) as connection, translate_errors():
        yield connection


@contextmanager
def translate_errors() -> Iterator[None]:
    """Turn errors of SQLite into `StorageError`."""
    try:
        yield
    except sqlite3.Error as problem:
        raise StorageError(f"the database failed: {problem}; is the disk full or damaged?") from problem


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != SCHEMA_VERSION:
        raise StorageError(
            f"{path}: the database has schema version {version}; this node supports version {SCHEMA_VERSION}"
        )
