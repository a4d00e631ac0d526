"""Resends: reads stored messages in order, one page at a time. Runs in the thread of the reading connection.

A resend ends with the message that is the newest when it starts. It holds no transaction between pages, so that a slow
reader delays nothing; messages deleted meanwhile are left out. A page ends with the message that makes it
`PAGE_CHARACTERS` long: memory is bounded by that and one message.
"""

import sqlite3
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from node.storage.database import MAX_INTEGER
from node.streams import StreamPart
from protocol.streamr.control import ResendFromRequest, ResendLastRequest, ResendRangeRequest
from protocol.streamr.ids import MessageRef

PAGE_CHARACTERS: Final = 256 * 1024
PAGE_MESSAGES: Final = 1_000
MAX_SEQUENCE_NUMBER: Final = 2**53 - 1  # the end of a range that names none
LAST: Final = MessageRef(MAX_SEQUENCE_NUMBER, MAX_SEQUENCE_NUMBER)
_Key = tuple[int, int, int]  # timestamp, sequence, chain
_BEFORE_ALL: Final[_Key] = (-1, -1, -1)
_NEWEST: Final = """
    SELECT timestamp, sequence FROM messages WHERE part = ?
    ORDER BY timestamp DESC, sequence DESC, chain DESC LIMIT 1 OFFSET ?
"""
_NTH_NEWEST: Final = _NEWEST.replace("SELECT timestamp, sequence", "SELECT timestamp, sequence, chain")
_PAGE: Final = """
    SELECT timestamp, sequence, chain, body FROM messages
    WHERE part = :part AND (timestamp, sequence, chain) > (:timestamp, :sequence, :chain)
    AND (timestamp, sequence) <= (:to_timestamp, :to_sequence) {filter}
    ORDER BY timestamp, sequence, chain LIMIT :limit
"""
_OF_PUBLISHER: Final = "AND chain IN (SELECT number FROM chains WHERE part = :part AND publisher = :publisher)"
_OF_CHAIN: Final = (
    "AND chain IN (SELECT number FROM chains WHERE part = :part AND publisher = :publisher AND chain = :chain_id)"
)
ResendRequest = ResendLastRequest | ResendFromRequest | ResendRangeRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ResendLast:
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResendRange:
    """The messages between two references, both included; of all, of one publisher, or of one chain of a publisher."""

    start: MessageRef
    end: MessageRef = LAST
    publisher: str | None = None
    chain: str | None = None


ResendQuery = ResendLast | ResendRange


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The position of a resend, and its end."""

    part: int
    after: _Key
    end: tuple[int, int]
    publisher: str | None = None
    chain: str | None = None


class Page(NamedTuple):
    bodies: list[str]
    rest: Place | None  # None: this was the last page


def start_resend(connection: sqlite3.Connection, part: StreamPart, query: ResendQuery) -> Place | None:
    """The start of a resend; None if the partition has no messages."""
    if part.partition > MAX_INTEGER:  # SQLite has no such number
        return None
    row = connection.execute("SELECT number FROM parts WHERE stream_id = ? AND partition = ?", part).fetchone()
    newest = row and connection.execute(_NEWEST, (row[0], 0)).fetchone()
    if not newest:
        return None
    match query:
        case ResendLast(count=count):
            nth = min(count, MAX_INTEGER) - 1
            key = connection.execute(_NTH_NEWEST, (row[0], nth)).fetchone() if nth >= 0 else (*newest, MAX_INTEGER)
            return Place(part=row[0], after=(*key[:2], key[2] - 1) if key else _BEFORE_ALL, end=newest)
        case ResendRange(start=start, end=end, publisher=publisher, chain=chain):
            last = min(newest, (min(end.timestamp, MAX_INTEGER), min(end.sequence_number, MAX_INTEGER)))
            return Place(
                part=row[0], after=_before(start), end=last, publisher=publisher and publisher.lower(), chain=chain
            )


def read_page(connection: sqlite3.Connection, place: Place) -> Page:
    """The next messages, and the position after them."""
    bodies: list[str] = []
    size = 0
    for timestamp, sequence, chain, body in connection.execute(_page_sql(place), _parameters(place)):
        bodies.append(body)
        size += len(body)
        if size >= PAGE_CHARACTERS or len(bodies) >= PAGE_MESSAGES:
            return Page(bodies, replace(place, after=(timestamp, sequence, chain)))
    return Page(bodies, None)


def _page_sql(place: Place) -> str:
    if place.publisher is None:
        return _PAGE.format(filter="")
    return _PAGE.format(filter=_OF_PUBLISHER if place.chain is None else _OF_CHAIN)


def _parameters(place: Place) -> dict[str, object]:
    timestamp, sequence, chain = place.after
    return {
        "part": place.part,
        "timestamp": timestamp,
        "sequence": sequence,
        "chain": chain,
        "to_timestamp": place.end[0],
        "to_sequence": place.end[1],
        "publisher": place.publisher,
        "chain_id": place.chain,
        "limit": PAGE_MESSAGES,
    }


def _before(ref: MessageRef) -> _Key:
    return min(ref.timestamp, MAX_INTEGER), min(ref.sequence_number, MAX_INTEGER), -1


def read_latest(connection: sqlite3.Connection, since_s: int, max_messages: int, max_characters: int) -> list[str]:
    """The messages that were stored last, newest first."""
    bodies: list[str] = []
    rows = connection.execute("SELECT stored_at_s, body FROM messages ORDER BY number DESC LIMIT ?", (max_messages,))
    for stored_at_s, body in rows:
        if max_characters <= 0 or stored_at_s < since_s:
            break
        bodies.append(body)
        max_characters -= len(body)
    return bodies


def query_of(request: ResendRequest) -> ResendQuery:
    match request:
        case ResendLastRequest(number_last=count):
            return ResendLast(count=count)
        case ResendFromRequest(from_msg_ref=start, publisher_id=publisher, msg_chain_id=chain):
            return ResendRange(start=start, publisher=publisher, chain=chain)
        case ResendRangeRequest(from_msg_ref=start, to_msg_ref=end, publisher_id=publisher, msg_chain_id=chain):
            return ResendRange(start=start, end=end, publisher=publisher, chain=chain)
