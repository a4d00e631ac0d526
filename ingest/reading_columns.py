"""Readings of equal header → columns of the table, without a Python value per field."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from ingest.decoded import EARLIEST_MESSAGE_MS, EARLIEST_MS, LATEST_MS, MAX_PRIORITY, scalar_columns
from ingest.readings import EVENTS
from protocol.byte_matrix import ByteMatrix
from protocol.errors import WireError
from protocol.iomessage.as_bytes import split_values
from protocol.iomessage.columns import DIGEST_BYTES, Flags, Numbers, ReadingColumns, doubles_in, read_binaries
from protocol.scalars import unit_of

DESCRIBED: Final = ("element", "sensor", "group_id", "priority", "quantity", "format", "unit")
_NOTHING_DESCRIBED: Final = (None,) * len(DESCRIBED)
_NO_WORK: Final = (b"", b"\x00")
_VALUE_TYPES: Final = {
    "value": pa.float64(),
    "value_integer": pa.int64(),
    "value_text": pa.string(),
    "value_boolean": pa.bool_(),
    "content": pa.binary(),
}
_NO_VALUE: Final = (None,) * len(_VALUE_TYPES)

Description = tuple[Any, ...]  # the columns `DESCRIBED`


class Spread(NamedTuple):
    """A column that says for each row which of a few values it has."""

    values: Sequence[Any]
    places: pa.Array


def spread(names: Sequence[str], rows: Sequence[tuple[Any, ...]], places: Numbers) -> dict[str, Spread]:
    """Columns of these names, each value of which is that of the row at one of the places."""
    columns = zip(names, zip(*rows, strict=True), strict=True)
    return {name: Spread(values, pa.array(places)) for name, values in columns}


class Group(NamedTuple):
    """Readings of equal header, in columns. Those that are not `is_read` are to be read one by one."""

    read: ReadingColumns
    columns: dict[str, pa.Array]
    kinds: Numbers  # of each reading: a place in `descriptions`
    descriptions: list[Description]
    is_read: Flags

    def only(self, mask: Flags) -> "Group":
        """Some of its readings."""
        columns = {name: column.filter(pa.array(mask)) for name, column in self.columns.items()}
        return self._replace(columns=columns, kinds=self.kinds[mask])


def join_groups(groups: Sequence[Group]) -> dict[str, Any]:
    """The columns of all readings of groups, group by group."""
    firsts = accumulate((len(group.descriptions) for group in groups), initial=0)
    kinds = np.concatenate([group.kinds + first for group, first in zip(groups, firsts, strict=False)])
    joined = {name: pa.concat_arrays([group.columns[name] for group in groups]) for name in groups[0].columns}
    described = spread(DESCRIBED, [each for group in groups for each in group.descriptions], kinds)
    return {**joined, **described, "clock": Spread(["synchronised"], pa.array(np.zeros_like(kinds)))}


def read_group(readings: Sequence[bytes], message_ms: Numbers) -> Group | None:
    """Readings of messages of these times. None if all are to be read one by one."""
    read = read_binaries(np.frombuffer(b"".join(readings), np.uint8).reshape(len(readings), -1))
    if read is None:
        return None
    descriptions = [describe(sample) for sample in read.samples]
    values, are_values = _read_values(read, descriptions)
    event_ms = np.where(read.made_at_ms == 0, message_ms, read.made_at_ms)
    is_timed = are_within(event_ms, EARLIEST_MS) & are_within(message_ms, EARLIEST_MESSAGE_MS)
    columns = {
        "message_id": text_column(read.ids),
        **values,
        "chain_position": pa.nulls(len(readings), pa.int64()) if read.positions is None else pa.array(read.positions),
        "hash": digest_column(read.digests) if read.digests else pa.nulls(len(readings), pa.binary()),
        "event_time": pa.array(event_ms * 1000),
    }
    is_read = read.is_usual & are_values & is_timed
    return Group(read, columns, read.kinds, [each or _NOTHING_DESCRIBED for each in descriptions], is_read)


def describe(sample: bytes) -> Description | None:
    """What all readings of this kind have in common; None if they are to be read one by one."""
    _, tag, group_id, _, _, priority, _, publisher, *_, difficulty, info_type, info_format, _, _ = split_values(sample)
    try:
        texts = [each.decode() or None for each in (publisher, tag or publisher, group_id, info_type, info_format)]
    except UnicodeDecodeError:
        return None
    element, sensor, group, quantity, form = texts
    if difficulty not in _NO_WORK or quantity in EVENTS:
        return None
    small = min(int.from_bytes(priority), MAX_PRIORITY) if priority else None
    return (element, sensor, group, small, quantity, form, unit_of(form or ""))


def _read_values(read: ReadingColumns, descriptions: list[Description | None]) -> tuple[dict[str, pa.Array], Flags]:
    """The columns from `value` to `content`, and which readings have what their descriptions announce."""
    doubles = None if any(each is None or each[-1] is None for each in descriptions) else doubles_in(read.contents)
    if doubles is not None:
        nulls = {name: pa.nulls(len(doubles), kind) for name, kind in _VALUE_TYPES.items()}
        return {**nulls, "value": pa.array(doubles)}, np.ones(len(doubles), np.bool_)
    values = [
        _read_value(row.tobytes(), descriptions[kind])
        for row, kind in zip(read.contents, read.kinds.tolist(), strict=True)
    ]
    columns = zip(*(each or _NO_VALUE for each in values), strict=True)
    arrays = {name: pa.array(column, _VALUE_TYPES[name]) for name, column in zip(_VALUE_TYPES, columns, strict=True)}
    return arrays, np.array([each is not None for each in values])


def _read_value(content: bytes, description: Description | None) -> tuple[Any, ...] | None:
    if description is None:
        return None
    if description[-1] is None:
        return (None, None, None, None, content)
    try:
        return scalar_columns(content)
    except WireError:
        return None


def are_within(times_ms: Numbers, earliest_ms: int) -> Flags:
    return (times_ms >= earliest_ms) & (times_ms < LATEST_MS)


def text_column(texts: ByteMatrix) -> pa.Array:
    return _equally_long(pa.string(), texts.tobytes(), texts.shape[1])


def digest_column(digests: bytes) -> pa.Array:
    return _equally_long(pa.binary(), digests, DIGEST_BYTES)


def _equally_long(kind: pa.DataType, values: bytes, width: int) -> pa.Array:
    """A column of texts or bytes that stand one after the other."""
    ends = np.arange(0, len(values) + 1, width, dtype=np.int32)
    return pa.Array.from_buffers(kind, len(ends) - 1, [None, pa.py_buffer(ends), pa.py_buffer(values)])
