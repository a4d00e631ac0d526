"""Laws of the journal, for any entries."""

import random
import struct
from typing import Any, Literal

import zstandard
from hypothesis import given
from hypothesis import strategies as st

from agent.journal import Entry, Journal, JournalSettings, Record
from agent.journal.layout import (
    HEAD_BYTES,
    MAX_BODY_BYTES,
    Compress,
    Head,
    Place,
    decode_block,
    encode_block,
    parse_foot,
    parse_head,
)
from agent.journal.records import positions_from
from agent.journal.state import decode_state
from protocol.losses import Loss
from tests.support.journal_account import positions_of
from tests.support.journal_helpers import NOW_MS, commit, entry, open_journal, settings
from tests.support.simulated_disk import SimulatedDisk

MAX_ENTRIES = 12
MAX_READINGS = 40
NAMES = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=20).filter(str.isprintable)
ENTRIES = st.lists(
    st.builds(
        Entry,
        st.binary(max_size=400),
        st.sampled_from(["boiler", "door"]) | NAMES,
        st.integers(0, 2**53 - 1),
        st.integers(0, 2**32 - 1),
        st.integers(1, MAX_READINGS),
    ),
    min_size=1,
    max_size=MAX_ENTRIES,
)
FIRST_POSITIONS = st.integers(0, 2**62 - 1 - MAX_ENTRIES * MAX_READINGS)  # a head that counts up to 2**62 is damaged
PLACES = st.builds(
    Place,
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**64 - 1),
    st.integers(0, 31),
    st.just(5),
    st.just(9),
    st.integers(0, 2**62),
)
COMPRESSORS = st.sampled_from([None, zstandard.ZstdCompressor(level=1).compress])


@given(PLACES, FIRST_POSITIONS, ENTRIES, COMPRESSORS)
def test_a_block_decodes_to_what_it_encodes(
    place: Place, first_position: int, entries: list[Entry], compress: Compress | None
) -> None:
    block = encode_block(place, first_position, entries, compress)
    head = parse_head(block)
    assert head is not None
    assert parse_foot(block) == head
    records, losses = decode_block(head, block)
    assert [record.entry for record in records] == entries
    ends = [first_position, *(record.next_position for record in records)]
    assert [record.position for record in records] == ends[:-1]
    assert head.end_position == ends[-1] == first_position + sum(entry.readings for entry in entries)
    assert losses == []


HARM = st.lists(st.tuples(st.integers(0), st.integers(1, 255)), min_size=1, max_size=4)


@given(PLACES, ENTRIES, COMPRESSORS, HARM)
def test_a_damaged_block_gives_true_records_and_counts_every_other_reading(
    place: Place, entries: list[Entry], compress: Compress | None, harm: list[tuple[int, int]]
) -> None:
    block = encode_block(place, 0, entries, compress)
    head = parse_head(block)
    assert head is not None
    records, losses = decode_block(head, _damaged(block, head, harm))
    true_records = dict(zip(positions_from(0, [entry.readings for entry in entries]), entries, strict=False))
    _check_account(true_records, records, losses, head.readings)


@given(PLACES, ENTRIES, COMPRESSORS, st.data())
def test_a_damaged_rewritten_block_does_not_count_what_was_left_out_on_purpose(
    place: Place, entries: list[Entry], compress: Compress | None, data: st.DataObject
) -> None:
    everything = list(zip(positions_from(0, [entry.readings for entry in entries]), entries, strict=False))
    kept = data.draw(st.lists(st.sampled_from(everything), min_size=1, unique_by=lambda each: each[0]).map(sorted))
    end_position = sum(entry.readings for entry in entries)
    positions, kept_entries = zip(*kept, strict=True)
    block = encode_block(place, 0, kept_entries, compress, positions, end_position)
    head = parse_head(block)
    assert head is not None
    assert (head.span, head.readings) == (end_position, sum(entry.readings for entry in kept_entries))
    records, losses = decode_block(head, _damaged(block, head, data.draw(HARM)))
    _check_account(dict(kept), records, losses, head.readings)


ANYWHERE = st.integers(0, 30) | st.integers(0, 2**64 - 1)


@given(PLACES, ANYWHERE, ANYWHERE, ENTRIES, st.data())
def test_a_forged_block_with_right_checksums_gives_no_more_than_its_head_says(
    place: Place, first_position: int, end_position: int, entries: list[Entry], data: st.DataObject
) -> None:
    forged = [entry._replace(readings=data.draw(st.integers(0, 3) | st.just(65_535))) for entry in entries]
    positions = [data.draw(ANYWHERE) for _ in forged]
    try:
        block = encode_block(place, first_position, forged, None, positions, max(end_position, first_position))
    except struct.error:
        return  # not even a forger can write that
    head = parse_head(block)
    if head is not None:
        records, losses = decode_block(head, _damaged(block, head, data.draw(st.just([]) | HARM)))
        ends = [head.first_position, *(record.next_position for record in records)]
        assert all(end <= record.position for end, record in zip(ends, records, strict=False))
        assert ends[-1] <= head.end_position
        assert sum(record.readings for record in records) + sum(loss.count for loss in losses) == head.readings


def _damaged(block: bytes, head: Head, harm: list[tuple[int, int]]) -> bytes:
    """Its body, which is small beside the zeros that fill the page."""
    damaged = bytearray(block)
    for offset, change in harm:
        damaged[HEAD_BYTES + head.table_bytes + offset % head.stored_bytes] ^= change
    return bytes(damaged)


def _check_account(entries: dict[int, Entry], records: list[Record], losses: list[Loss], readings: int) -> None:
    """Every reading is in a true record or in a loss, and each lost one is where a loss says."""
    assert all(record.entry == entries[record.position] for record in records)
    assert sum(record.readings for record in records) + sum(loss.count for loss in losses) == readings
    for position in entries.keys() - {record.position for record in records}:
        end = position + entries[position].readings
        assert any(loss.first_position <= position and end <= loss.last_position + 1 for loss in losses)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_state_or_none(data: bytes) -> None:
    assert decode_state(data) is None or data.startswith(b"HGJS")


@given(st.lists(st.tuples(st.integers(0, 31), ENTRIES), max_size=6), st.integers(0, 2**32))
def test_every_committed_entry_comes_back_once_by_lane_and_in_order(
    batches: list[tuple[int, list[Entry]]], seed: int
) -> None:
    disk, chance = SimulatedDisk(), random.Random(seed)
    settings = JournalSettings(segment_bytes=64 * 1024, max_bytes=8 << 20)
    journal = Journal(disk, settings, new_journal_id=1, now_ms=0)
    expected: dict[int, list[Entry]] = {}
    for lane, entries in batches:
        journal.append_many(lane, entries)
        expected.setdefault(lane, []).extend(entries)
        if chance.random() < 0.5:
            journal.commit(0)
    journal.close(0)
    cursor = Journal(disk.after_power_loss(chance), settings, new_journal_id=2, now_ms=0).cursor("publisher")
    read: dict[int, list[Entry]] = {}
    while records := cursor.take(chance.randint(1, 40)):
        read.setdefault(records[0].lane, []).extend(record.entry for record in records)
    assert read == expected
    assert list(read) == sorted(read)


def test_the_largest_body_is_what_the_limits_say() -> None:
    settings = JournalSettings()
    journal = Journal(SimulatedDisk(), settings, new_journal_id=1, now_ms=0)
    journal.append(0, Entry(random.Random(1).randbytes(settings.max_payload_bytes), "c", 0, 0))
    journal.commit(0)
    [record] = journal.cursor("publisher").take(1)
    assert len(record.payload) == MAX_BODY_BYTES - 30


ROT = st.lists(
    st.one_of(
        st.tuples(st.just("rot"), st.integers(0, 1 << 16), st.integers(0, 7)),
        st.tuples(st.just("read"), st.sampled_from(["publisher", "archiver"]), st.integers(1, 12)),
        st.tuples(st.just("write"), st.integers(1, 5), st.just(0)),
        st.tuples(st.just("reopen"), st.just(0), st.just(0)),
    ),
    max_size=25,
)


@given(steps=ROT, compression=st.sampled_from(["none", "zstd"]))
def test_whatever_is_damaged_each_loss_of_a_cursor_is_reported(
    steps: list[tuple[str, Any, int]], compression: Literal["none", "zstd"]
) -> None:
    using = settings(compression=compression, cursors=("publisher", "archiver"))
    disk = SimulatedDisk()
    journal = open_journal(disk, using)
    written, got = 0, set[int]()
    for step, what, how in [("write", 4, 0), *steps, ("read", "archiver", 1000)]:
        match step:
            case "rot":
                _rot_one_byte(disk, what, how)
            case "read":
                while taken := journal.cursor(what).take(how):
                    got.update(at for record in taken if what == "archiver" for at in positions_of(record))
                    if how < 1000:
                        break
            case "write":
                commit(journal, 0, *(entry(written + number, 700, readings=1 + 3 * number) for number in range(what)))
                written = journal.durable_position(0)
            case _:
                journal.close(NOW_MS)
                journal = open_journal(disk, using)
                got.clear()  # nothing was acknowledged: it all comes again
    reported = [range(gap.loss.first_position, gap.loss.last_position + 1) for gap in journal.pending_losses()]
    missed = set(range(written)) - got
    assert {position for position in missed if not any(position in one for one in reported)} == set()


def _rot_one_byte(disk: SimulatedDisk, where: int, bit: int) -> None:
    written = [
        (name, offset)
        for name, file in sorted(disk.files.items())
        if name.endswith(".segment")
        for offset, value in enumerate(file.content)
        if value
    ]
    if written:
        name, offset = written[where % len(written)]
        disk.files[name].content[offset] ^= 1 << bit
