"""Resends of the legacy API: reads messages in order of arrival. Runs in the thread of the reading connection.

For a legacy client a message has an offset, a number that increases from message to message of a partition. It is the
number of the message in the table: numbers are in order of arrival and never reused, so that messages with equal or
decreasing timestamps have different offsets. Pages are bounded as in
`node.storage.queries`.
"""

import sqlite3
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from node.limits import MAX_AHEAD_MS
from node.storage.database import MAX_INTEGER
from node.storage.queries import PAGE_CHARACTERS, PAGE_MESSAGES
from node.streams import StreamPart
from protocol.streamr.control import LegacyResendRequest

_NTH_NEWEST: Final = """
    SELECT stored_at_s, number FROM messages WHERE part = ? ORDER BY stored_at_s DESC, number DESC LIMIT 1 OFFSET ?
"""
_STORED_AT: Final = "SELECT stored_at_s FROM messages WHERE number {} ? ORDER BY number {} LIMIT 1"
_STORED_FROM, _STORED_UNTIL = _STORED_AT.format(">=", "ASC"), _STORED_AT.format("<=", "DESC")
_PAGE: Final = """
    SELECT stored_at_s, number, body FROM messages INDEXED BY messages_by_arrival
    WHERE part = :part AND (stored_at_s, number) > (:after_s, :after) AND (stored_at_s, number) <= (:end_s, :end)
    AND timestamp >= :since_ms
    ORDER BY stored_at_s, number LIMIT :limit
"""
_Arrival = tuple[int, int]  # stored_at_s, number


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalQuery:
    """The last N messages, or those between two offsets, both included, not older than a time."""

    last: int | None = None
    start: int = 0
    end: int = MAX_INTEGER
    since_ms: int = 0


class StoredText(NamedTuple):
    offset: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """The position of a resend, and its end."""

    part: int
    after: _Arrival
    end: _Arrival
    since_ms: int


class ArrivalPage(NamedTuple):
    texts: list[StoredText]
    rest: Arrivals | None  # None: this was the last page


def start_arrivals(connection: sqlite3.Connection, part: StreamPart, query: ArrivalQuery) -> Arrivals | None:
    """The start of a resend; None if there is nothing to resend."""
    row = connection.execute("SELECT number FROM parts WHERE stream_id = ? AND partition = ?", part).fetchone()
    newest = row and connection.execute(_NTH_NEWEST, (row[0], 0)).fetchone()
    if not newest:
        return None
    end = min(newest, _position(connection, _STORED_UNTIL, query.end))
    after = _start(connection, row[0], query)
    return Arrivals(part=row[0], after=after, end=end, since_ms=min(query.since_ms, MAX_INTEGER))


def _start(connection: sqlite3.Connection, part: int, query: ArrivalQuery) -> _Arrival:
    if query.last is not None:
        nth: _Arrival | None = connection.execute(_NTH_NEWEST, (part, min(query.last, MAX_INTEGER) - 1)).fetchone()
        return (nth[0], nth[1] - 1) if nth and query.last else (-1, -1) if query.last else (MAX_INTEGER, 0)
    stored_at_s, number = _position(connection, _STORED_FROM, query.start)
    earliest_s = min((query.since_ms - MAX_AHEAD_MS) // 1000, MAX_INTEGER)  # admission refuses later timestamps
    return max((stored_at_s, number - 1), (earliest_s, -1))


def _position(connection: sqlite3.Connection, sql: str, offset: int) -> _Arrival:
    """The time at which the message of this offset, or the nearest one, was stored; and the offset."""
    offset = min(offset, MAX_INTEGER)
    row = connection.execute(sql, (offset,)).fetchone()
    return (row[0] if row else MAX_INTEGER if sql is _STORED_FROM else -1, offset)


def read_arrival_page(connection: sqlite3.Connection, arrivals: Arrivals) -> ArrivalPage:
    """The next messages, and the position after them."""
    texts: list[StoredText] = []
    size = 0
    for stored_at_s, number, body in connection.execute(_PAGE, _parameters(arrivals)):
        texts.append(StoredText(number, body))
        size += len(body)
        if size >= PAGE_CHARACTERS or len(texts) >= PAGE_MESSAGES:
            return ArrivalPage(texts, replace(arrivals, after=(stored_at_s, number)))
    return ArrivalPage(texts, None)


def _parameters(arrivals: Arrivals) -> dict[str, int]:
    return {
        "part": arrivals.part,
        "after_s": arrivals.after[0],
        "after": arrivals.after[1],
        "end_s": arrivals.end[0],
        "end": arrivals.end[1],
        "since_ms": arrivals.since_ms,
        "limit": PAGE_MESSAGES,
    }


def arrival_query_of(request: LegacyResendRequest) -> ArrivalQuery:
    if request.resend_last is not None:
        return ArrivalQuery(last=request.resend_last)
    return ArrivalQuery(
        start=max(0, request.resend_from or 0),
        end=MAX_INTEGER if request.resend_to is None else max(0, request.resend_to),
        since_ms=max(0, request.resend_from_time or 0),
    )
