"""Read the readings of many verified messages at once.

The readings of all messages are sorted by their headers. Those with the same header are read together
(`ingest/reading_columns.py`). Readings of rare headers, and those that are not of the usual form, are read one by one
(`ingest/readings.py`), which gives the same rows. A message of which a reading is invalid, or does not continue from
the one before it, is not accepted: the general path (`ingest/records.py`) says what is wrong with it.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from ingest.decoded import LINKED, OF_MESSAGE, UNLINKED, ChainLink, Decoded, Reading, message_columns
from ingest.quick import UsualMessage
from ingest.reading_columns import Group, Spread, join_groups, read_group, spread
from ingest.readings import read_reading
from ingest.reasons import Quarantined
from protocol.byte_matrix import ByteMatrix
from protocol.iomessage.as_bytes import HEADER_BYTES
from protocol.iomessage.columns import HASH_BYTES, Flags, Numbers, ReadingColumns

MIN_TOGETHER: Final = 16  # readings of one header; fewer are as quickly read one by one


class LaidOut(NamedTuple):
    """Rows: nearly all as columns, those that were read one by one as tuples in the order of `ROW_COLUMNS`."""

    columns: dict[str, Any]  # empty if there are none
    rows: list[tuple[Any, ...]]
    links: list[str]  # of `rows`


class ManyReadings:
    """The readings of some messages, at least one."""

    def __init__(self, messages: Sequence[UsualMessage]) -> None:
        counts = [len(message.readings) for message in messages]
        self._messages = messages
        self._message_of: Numbers = np.repeat(np.arange(len(messages)), counts)
        self._starts: Numbers = np.cumsum([0, *counts[:-1]])
        self._ends: Numbers = np.cumsum(counts) - 1
        self._binaries = [reading for message in messages for reading in message.readings]
        self._links = _Links(len(self._binaries))
        self._groups = list(self._read_together())
        self._alone: dict[int, Reading] = {}  # by their places among all readings
        self._is_valid = self._read_alone() & self._links.are_unbroken(self._starts)

    def _read_together(self) -> Iterator["_PlacedGroup"]:
        by_header: dict[bytes, list[int]] = {}
        for place, binary in enumerate(self._binaries):
            by_header.setdefault(binary[:HEADER_BYTES], []).append(place)
        message_ms = np.array([message.record.timestamp_ms for message in self._messages])[self._message_of]
        for alike in by_header.values():
            if len(alike) >= MIN_TOGETHER:
                places = np.array(alike)
                group = read_group([self._binaries[place] for place in alike], message_ms[places])
                if group is not None:
                    self._links.note(places, group.read)
                    yield _PlacedGroup(places, group)

    def _read_alone(self) -> Flags:
        """Read the others. Which messages have no invalid reading."""
        is_left = np.ones(len(self._binaries), np.bool_)
        for places, group in self._groups:
            is_left[places[group.is_read]] = False
        is_valid = np.ones(len(self._messages), np.bool_)
        for place in np.flatnonzero(is_left).tolist():
            message = self._message_of[place]
            if is_valid[message]:
                try:
                    reading = read_reading(self._binaries[place], self._messages[message].record.timestamp_ms)
                except Quarantined:
                    is_valid[message] = False
                else:
                    self._alone[place] = reading
                    self._links.note_one(place, reading.link)
        return is_valid

    def decoded(self) -> list[Decoded | None]:
        """Each message of which all readings are valid, else None."""
        links = self._links.of_messages(self._starts, self._ends)
        alone: dict[int, list[Reading]] = {}
        for place, reading in self._alone.items():
            alone.setdefault(int(self._message_of[place]), []).append(reading)
        return [
            _decoded(self._messages[index], links[index], alone.get(index, ())) if is_valid else None
            for index, is_valid in enumerate(self._is_valid.tolist())
        ]

    def lay_out(self, words: Sequence[str]) -> LaidOut:
        """The rows of messages. The words say how the first reading of each is linked; "" leaves a message out."""
        shared = [
            message_columns(record, number, identity, text.previous, "plain", text.digest, len(readings))
            for number, record, identity, text, readings in self._messages
        ]
        is_wanted = np.array([word != "" for word in words])
        rows, links = [], []
        for place, reading in self._alone.items():
            message = int(self._message_of[place])
            if is_wanted[message]:
                index = place - int(self._starts[message])
                rows.append((*shared[message], index, *reading.columns))
                links.append(words[message] if index == 0 else UNLINKED if reading.link is None else LINKED)
        groups = [each.only(is_wanted[self._message_of[each.places]]) for each in self._groups]
        groups = [each for each in groups if len(each.places)]
        columns = self._lay_out_groups(groups, words, shared) if groups else {}
        return LaidOut(columns, rows, links)

    def _lay_out_groups(
        self, groups: Sequence["_PlacedGroup"], words: Sequence[str], shared: Sequence[tuple[Any, ...]]
    ) -> dict[str, Any]:
        places = np.concatenate([each.places for each in groups])
        messages = self._message_of[places]
        readings = places - self._starts[messages]
        later = len(words) + self._links.are_unlinked(places)
        return {
            **spread(OF_MESSAGE, shared, messages),
            **join_groups([each.group for each in groups]),
            "reading": pa.array(readings),
            "link": Spread([*words, LINKED, UNLINKED], pa.array(np.where(readings == 0, messages, later))),
        }


class _PlacedGroup(NamedTuple):
    """A group, and where its readings stand among all readings."""

    places: Numbers
    group: Group

    def only(self, is_wanted: Flags) -> "_PlacedGroup":
        """Those of its readings that were read together and are wanted."""
        mask = is_wanted & self.group.is_read
        return self if mask.all() else _PlacedGroup(self.places[mask], self.group.only(mask))


def _decoded(message: UsualMessage, link: ChainLink | None, alone: Sequence[Reading]) -> Decoded:
    return Decoded(
        message.identity,
        message.text.ref,
        message.text.ref,
        message.text.previous,
        link,
        len(message.readings),
        events=[reading.event for reading in alone if reading.event is not None],
        boots=[reading.boot for reading in alone if reading.boot is not None],
    )


class _Links:
    """Where readings stand in the hash chain."""

    def __init__(self, count: int) -> None:
        self._positions = np.full(count, -1, np.int64)  # of those that are linked
        self._hashes = np.zeros((count, HASH_BYTES), np.uint8)
        self._previous = np.zeros((count, HASH_BYTES), np.uint8)  # zeros where there is none
        self._named: dict[int, str | None] = {}  # previous hashes that were read one by one, and may be any text

    def note(self, places: Numbers, read: ReadingColumns) -> None:
        if read.positions is not None and read.digests:
            self._positions[places] = read.positions
            self._hashes[places] = read.hashes
            if read.previous_hashes.shape[1]:
                self._previous[places] = read.previous_hashes

    def note_one(self, place: int, link: ChainLink | None) -> None:
        self._positions[place] = -1 if link is None else link.first
        if link is not None:
            self._hashes[place] = np.frombuffer(link.hash.encode(), np.uint8)
            self._named[place] = link.previous_hash
            previous = (link.previous_hash or "").encode()
            self._previous[place] = np.frombuffer(previous, np.uint8) if len(previous) == HASH_BYTES else 0

    def are_unlinked(self, places: Numbers) -> Flags:
        return self._positions[places] < 0

    def are_unbroken(self, starts: Numbers) -> Flags:
        """Of each message: whether each reading but the first continues from the one before; or none is linked."""
        positions, is_linked = self._positions, self._positions >= 0
        follows = (positions[1:] == positions[:-1] + 1) & (self._previous[1:] == self._hashes[:-1]).all(axis=1)
        continues = np.ones(len(positions), np.bool_)
        continues[1:] = np.where(is_linked[1:], is_linked[:-1] & follows, ~is_linked[:-1])
        continues[starts] = True
        return np.logical_and.reduceat(continues, starts)

    def of_messages(self, starts: Numbers, ends: Numbers) -> list[ChainLink | None]:
        """The link of each message; of those that are broken, nonsense."""
        firsts, lasts = self._positions[starts].tolist(), self._positions[ends].tolist()
        hashes, previous = _texts(self._hashes[ends]), _texts(self._previous[starts])
        named = [self._named.get(place, text or None) for place, text in zip(starts.tolist(), previous, strict=True)]
        links = map(ChainLink, firsts, lasts, hashes, named)
        return [link if link.first >= 0 else None for link in links]


def _texts(rows: ByteMatrix) -> list[str]:
    """Texts in ASCII; empty for a row of zeros."""
    joined, width = rows.tobytes().decode("latin-1"), rows.shape[1]
    return [joined[start : start + width].rstrip("\0") for start in range(0, len(joined), width)]
