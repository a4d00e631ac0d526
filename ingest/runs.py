"""Many usual messages of one chain, with one reading each, at once: as columns, without a Python value per field.

What nearly every chain is whose readings come one by one: a run of readings of one sensor, of the same layout byte for
byte, each a double, each hash-linked to the one before it. The first text is parsed; the others can differ from it in a
few fields only, and these are cut out of all texts (`text_columns` of the protocol) and all ioMessages (`columns`)
together. A run that is not perfect in all of this is not accepted: its messages are read by `ingest/many_readings.py`,
which gives the same rows.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from ingest.decoded import EARLIEST_MESSAGE_MS, EARLIEST_MS, LATEST_MS, LINKED, ChainLink, Decoded
from ingest.quick import identity_of
from ingest.reading_columns import DESCRIBED, Spread, are_within, describe, digest_column, text_column
from protocol.archive.records import Columns
from protocol.iomessage.columns import HASH_BYTES, Numbers, ReadingColumns, doubles_in, read_binaries
from protocol.streamr.stream_message.text_columns import read_texts
from protocol.streamr.stream_message.usual_text import UsualText

MIN_RUN: Final = 16  # messages; fewer are as quickly read otherwise

Verify = Callable[[Sequence[bytes], Sequence[bytes]], Sequence[bool]]  # digests, signatures


class Run(NamedTuple):
    """Messages in columns."""

    decoded: Decoded
    columns: dict[str, Any]  # by names of `ROW_COLUMNS`: arrays
    shared: dict[str, Any]  # what is the same in all of its messages


def join_runs(runs: Sequence[tuple[Run, str]]) -> dict[str, Any]:
    """The columns of several runs as one: an array costs as much as a hundred of its values.

    With each run comes how its first reading is linked.
    """
    counts = [run.decoded.readings for run, _ in runs]
    places = pa.array(np.repeat(np.arange(len(runs), dtype=np.int32), counts))
    joined: dict[str, Any] = {name: Spread([run.shared[name] for run, _ in runs], places) for name in runs[0][0].shared}
    for name in runs[0][0].columns:
        joined[name] = _join([run.columns[name] for run, _ in runs])
    links = [(link, *[LINKED] * (count - 1)) for (_, link), count in zip(runs, counts, strict=True)]
    return {**joined, "link": list(chain.from_iterable(links))}


def _join(parts: list[Any]) -> pa.Array:
    return pa.array(np.concatenate(parts)) if isinstance(parts[0], np.ndarray) else pa.concat_arrays(parts)


def lay_out_run(first: UsualText, numbers: Sequence[int], records: Columns, verify: Verify) -> Run | None:
    """All of these records, if they are a perfect run and their signatures are valid; `first` is the first text.

    `numbers` are those of the records within the archive. Signatures are checked last, so that what is no perfect run
    costs little before its messages are read otherwise.
    """
    if first.previous is None or max(records.arrivals_ms) >= LATEST_MS or max(records.readings) > 1:
        return None
    texts = read_texts(records.texts, records.timestamps_ms, records.sequences)
    readings = None if texts is None else read_binaries(texts.messages)
    link = None if readings is None else _link_of(readings)
    if texts is None or readings is None or link is None:
        return None
    description, values = describe(readings.samples[0]), doubles_in(readings.contents)
    if description is None or description[-1] is None or values is None:
        return None
    timestamps_ms, sequences = np.array(records.timestamps_ms, np.int64), np.array(records.sequences, np.int64)
    are_timed = are_within(timestamps_ms, EARLIEST_MESSAGE_MS) & are_within(readings.made_at_ms, EARLIEST_MS)
    if not are_timed.all() or not all(verify(texts.digests, texts.signatures)):
        return None
    columns = {
        "record": np.array(numbers),
        "timestamp_ms": timestamps_ms,
        "sequence": sequences,
        "arrived_at": np.array(records.arrivals_ms, np.int64) * 1000,
        "previous_timestamp_ms": _of_the_previous(timestamps_ms, first.previous[0]),
        "previous_sequence": _of_the_previous(sequences, first.previous[1]),
        "message_id": text_column(readings.ids),
        "value": values,
        "chain_position": readings.positions,
        "hash": digest_column(readings.digests),
        "event_time": readings.made_at_ms * 1000,
        "signed_digest": digest_column(b"".join(texts.digests)),
    }
    identity = identity_of(first)
    shared = {
        "chain": records.chains[0],
        **dict(zip(("stream_id", "stream_partition", "msg_chain_id"), identity, strict=True)),
        "content_state": "plain",
        "readings": 1,
        "reading": 0,
        "clock": "synchronised",
        **dict(zip(DESCRIBED, description, strict=True)),
    }
    last = (records.timestamps_ms[-1], records.sequences[-1])
    decoded = Decoded(identity, first.ref, last, first.previous, link, len(numbers))
    return Run(decoded, columns, shared)


def _link_of(read: ReadingColumns) -> ChainLink | None:
    """The link of all readings, if they are valid, of one kind, and each continues from the one before it."""
    positions, hashes, previous = read.positions, read.hashes, read.previous_hashes
    if not (
        len(read.samples) == 1
        and positions is not None
        and hashes.shape[1] == previous.shape[1] == HASH_BYTES
        and read.is_usual.all()
        and (positions[1:] - positions[:-1] == 1).all()
        and (previous[1:] == hashes[:-1]).all()
    ):
        return None
    last, first = (row.tobytes().decode() for row in (hashes[-1], previous[0]))
    return ChainLink(int(positions[0]), int(positions[-1]), last, first)


def _of_the_previous(numbers: Numbers, first: int) -> Numbers:
    return np.concatenate((np.array([first], np.int64), numbers[:-1]))
