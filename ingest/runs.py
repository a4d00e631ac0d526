"""Many usual messages of one chain at once: as columns, without a Python value per field.

What nearly every chain of a block is: a run of readings of one sensor, of the same layout byte for byte, each a double,
each hash-linked to the one before it. The first is decoded alone; the others can differ from it in a few fields only,
and these are cut out of all texts (`text_columns` of the protocol) and all ioMessages (`columns`) together. A run that
is not perfect in all of this is not accepted: its messages are decoded one by one, which gives the same rows.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from ingest.decoded import EARLIEST_MESSAGE_MS, EARLIEST_MS, LATEST_MS, ROW_COLUMNS, ChainLink, Decoded, Ref
from protocol.archive.records import Columns
from protocol.iomessage.columns import DIGEST_BYTES, Numbers, read_binaries
from protocol.streamr.stream_message.text_columns import read_texts

MIN_RUN: Final = 16  # messages; fewer are as quickly decoded one by one
_HASH_BYTES: Final = 64  # a digest in hexadecimal

Verify = Callable[[Sequence[bytes], Sequence[bytes]], Sequence[bool]]  # digests, signatures


class Run(NamedTuple):
    """Its messages in columns, and where the chain stands behind the last."""

    columns: dict[str, Any]  # by names of `ROW_COLUMNS`: arrays or lists
    shared: dict[str, Any]  # what is the same in all of its messages
    messages: int
    last: Ref
    last_link: ChainLink


class Spread(NamedTuple):
    """A column that says for each row which of a few values it has."""

    values: list[Any]
    places: pa.Array


def join_runs(runs: Sequence[tuple[Run, list[str]]]) -> dict[str, Any]:
    """The columns of several runs as one: an array costs as much as a hundred of its values."""
    counts = [run.messages for run, _ in runs]
    places = pa.array(np.repeat(np.arange(len(runs), dtype=np.int32), counts))
    joined: dict[str, Any] = {
        name: Spread([run.shared[name] for run, _ in runs], places) for name in ROW_COLUMNS if name in runs[0][0].shared
    }
    for name in runs[0][0].columns:
        joined[name] = _join([run.columns[name] for run, _ in runs])
    return joined


def _join(parts: list[Any]) -> Any:
    match parts[0]:
        case np.ndarray():
            return pa.array(np.concatenate(parts))
        case pa.Array():
            return pa.concat_arrays(parts)
    return list(chain.from_iterable(parts))


def lay_out_run(first: Decoded, numbers: Sequence[int], records: Columns, verify: Verify) -> Run | None:
    """All of these records, of which `first` is the first, if they are a perfect run and their signatures hold.

    `numbers` are those of the records within the archive. Signatures are checked last, so that what is no perfect run
    costs little before its messages are looked at one by one.
    """
    link, row = first.link, dict(zip(ROW_COLUMNS, first.row, strict=True))
    if link is None or link.previous_hash is None or row["value"] is None or max(records.arrivals_ms) >= LATEST_MS:
        return None
    texts = read_texts(records.texts, records.timestamps_ms, records.sequences)
    readings = None if texts is None else read_binaries(texts.messages)
    timestamps_ms, sequences = np.array(records.timestamps_ms, np.int64), np.array(records.sequences, np.int64)
    if texts is None or readings is None:
        return None
    if not (_is_within(timestamps_ms, EARLIEST_MESSAGE_MS) and _is_within(readings.made_at_ms, EARLIEST_MS)):
        return None
    if not all(verify(texts.digests, texts.signatures)):
        return None
    columns = {
        "record": np.array(numbers),
        "timestamp_ms": timestamps_ms,
        "sequence": sequences,
        "arrived_at": np.array(records.arrivals_ms, np.int64) * 1000,
        "previous_timestamp_ms": _of_the_previous(timestamps_ms, row["previous_timestamp_ms"]),
        "previous_sequence": _of_the_previous(sequences, row["previous_sequence"]),
        "message_id": _equally_long(pa.string(), readings.ids.tobytes(), readings.ids.shape[1]),
        "value": readings.values,
        "chain_position": readings.positions,
        "hash": _equally_long(pa.binary(), readings.digests, DIGEST_BYTES),
        "event_time": readings.made_at_ms * 1000,
        "signed_digest": _equally_long(pa.binary(), b"".join(texts.digests), DIGEST_BYTES),
    }
    last = (int(timestamps_ms[-1]), int(sequences[-1]))
    hashes = readings.digests[-2 * DIGEST_BYTES :].hex()
    last_link = ChainLink(link.publisher, int(readings.positions[-1]), hashes[_HASH_BYTES:], hashes[:_HASH_BYTES])
    return Run(columns, row, len(numbers), last, last_link)


def _of_the_previous(numbers: Numbers, first: int) -> Numbers:
    return np.concatenate((np.array([first], np.int64), numbers[:-1]))


def _is_within(times_ms: Numbers, earliest_ms: int) -> bool:
    return bool(times_ms.min() >= earliest_ms and times_ms.max() < LATEST_MS)


def _equally_long(kind: pa.DataType, values: bytes, width: int) -> pa.Array:
    """A column of texts or bytes that stand one after the other."""
    ends = np.arange(0, len(values) + 1, width, dtype=np.int32)
    return pa.Array.from_buffers(kind, len(ends) - 1, [None, pa.py_buffer(ends), pa.py_buffer(values)])
