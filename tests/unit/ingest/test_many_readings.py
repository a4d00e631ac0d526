"""Whatever way the readings of packs are read, the rows, the quarantine and the summary are the same."""

import binascii
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ingest.archive_rows import DecodeSettings, decode_archive
from ingest.quick import QuickReader
from ingest.reading_columns import read_group
from ingest.summary import ArchiveSummary
from protocol.archive.records import Record
from protocol.clock import CORRECTION_INFO_TYPE, MEDIA_TYPE, ClockContext, ClockCorrection
from protocol.events import GAP_INFO_TYPE, GapNotice
from protocol.iomessage.content import decode_binary_content, encode_binary_content
from protocol.streamr.stream_message.signing import sign_message
from testbed.corpus.archives import Archive, Chain, Device, Draft, Made, raw_draft
from tests.effort import effort
from tests.support.archives import LOSS

START_MS = 1_790_000_000_000
NEVER = 10**9
VALUES = [0.5, -1e300, float("inf"), 7, -3, 2**40, True, None, "open", "shut", "", b"\x00\xff"]
CONTEXT = ClockContext(boot_id=bytes(range(16)), monotonic_ms=5, is_synchronised=False)
NOTICE = GapNotice(journal=bytes(16), loss=LOSS).to_bytes()

Rows = list[dict[str, Any]]


def decode(data: bytes) -> tuple[Rows, Rows]:
    """Readings in their order, and the other rows, the summary last."""
    readings: Rows = []
    batches = list(decode_archive("x", data, 0, DecodeSettings(), lambda batch: readings.extend(batch.to_pylist())))
    readings.sort(key=lambda row: (row["record"], row["reading"]))
    return readings, [row for batch in batches for row in batch.to_pylist()]


def decode_each_way(data: bytes) -> tuple[Rows, Rows]:
    """All ways agree."""
    usual = decode(data)
    with patch("ingest.many_readings.MIN_TOGETHER", 1):
        assert decode(data) == usual
    with patch("ingest.many_readings.MIN_TOGETHER", NEVER):
        assert decode(data) == usual
    with patch("ingest.blocks.MIN_RUN", NEVER), patch.object(QuickReader, "read", _read_nothing):
        assert decode(data) == usual
    return usual


def _read_nothing(_: QuickReader, records: list[Record], _numbers: list[int]) -> list[None]:
    return [None] * len(records)


def summary_of(others: Rows) -> ArchiveSummary:
    return ArchiveSummary.from_json(others[-1]["summary"])


def archive_of(*messages: Made) -> bytes:
    return Archive(messages[0].chain.device, START_MS, block_target_bytes=500_000).add(messages).to_bytes()


def with_a_byte_changed(made: Made, offset: int, byte: int) -> Made:
    """The message with one byte of its readings changed, signed by its device all the same."""
    parts = made.message.content.split('"')  # {"ioMessages":"<base64>"}
    data = bytearray(binascii.a2b_base64(parts[3]))
    data[offset % len(data)] = byte
    parts[3] = binascii.b2a_base64(data, newline=False).decode()
    content = '"'.join(parts)
    return replace(made, message=sign_message(made.message.replace(content=content), made.chain.device.signer))


drafts = st.fixed_dictionaries(
    {"value": st.sampled_from([*VALUES, *[0.5] * 20])},
    optional={
        "sensor": st.sampled_from(["boiler", "roiler", "größer", "pump"]),
        "context": st.just(CONTEXT),
        "spoil_hash": st.sampled_from([False] * 20 + [True]),
        "broken_link": st.sampled_from([False] * 20 + [True]),
        "event": st.sampled_from([False] * 5 + [True]),
    },
)
messages = st.lists(st.lists(drafts, min_size=1, max_size=12), min_size=1, max_size=8)
damage = st.tuples(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 255))


def draft(chain: Chain, fields: dict[str, Any], at_ms: int) -> Draft:
    options = {name: value for name, value in fields.items() if name not in ("value", "event")}
    if fields.get("event"):
        return replace(raw_draft(GAP_INFO_TYPE, MEDIA_TYPE, NOTICE, at_ms), **options)
    return chain.draft(fields["value"], at_ms, **options)


@settings(max_examples=effort(test=40, soak=3_000), deadline=None)
@given(messages=messages, damages=st.lists(damage, max_size=3), linked=st.booleans())
@example(messages=[[{"value": 0.5}] * 12] * 3, damages=[(1, 5, 0xFF)], linked=True)
@example(messages=[[{"value": 0.5}] * 12] * 3, damages=[(1, 120, 0xFF)], linked=False)
def test_random_packs_are_read_alike_in_every_way(
    messages: list[list[dict[str, Any]]], damages: list[tuple[int, int, int]], *, linked: bool
) -> None:
    chain = Device(51).chain("packed", linked=linked)
    made = [
        chain.send([draft(chain, fields, START_MS + number) for fields in readings], START_MS + number)
        for number, readings in enumerate(messages)
    ]
    for place, offset, byte in damages:
        at = place % len(made)
        made[at] = with_a_byte_changed(made[at], offset, byte)
    readings, others = decode_each_way(archive_of(*made))
    rejected = {row["record"]: row["readings"] for row in others if row["kind"] == "quarantine"}
    found = {number: [row["reading"] for row in readings if row["record"] == number] for number in range(len(made))}
    for number, message in enumerate(made):
        whole = list(range(len(message.readings)))
        assert (found[number], rejected.get(number)) in ((whole, None), ([], len(whole)))


def test_packs_of_several_sensors_are_one_hash_chain() -> None:
    chain = Device(52).chain("packed")
    packs = [
        chain.send(
            [chain.draft(0.5, START_MS + each, sensor=f"sensor {each % 3}") for each in range(30)], START_MS + number
        )
        for number in range(3)
    ]
    readings, others = decode_each_way(archive_of(*packs))
    assert [row["link"] for row in readings] == ["first", *["linked"] * 89]
    assert [row["chain_position"] for row in readings] == list(range(90))
    assert [row["sensor"] for row in readings] == [f"sensor {each % 3}" for each in range(30)] * 3
    (span,) = summary_of(others).chains["packed"].spans
    assert (span.first, span.last, span.first_position, span.last_position) == ((START_MS, 0), (START_MS + 2, 0), 0, 89)
    assert (span.first_place, span.last_place) == (0, 89)


def test_what_a_pack_says_of_its_message_is_in_each_of_its_rows() -> None:
    chain = Device(53).chain("packed")
    first, pack = chain.reading(0.5, START_MS), chain.pack([1.5, 2, "x"], START_MS + 9)
    readings, _ = decode_each_way(archive_of(first, pack))
    assert len({row["signed_digest"] for row in readings[1:]}) == 1
    for index, row in enumerate(readings[1:]):
        expected = pack.readings[index].row
        assert {name: row[name] for name in expected} == expected
        assert (row["reading"], row["readings"], row["previous_timestamp_ms"]) == (index, 3, START_MS)


def test_messages_that_are_alone_are_read_together_across_chains() -> None:
    device = Device(54)
    singles = [device.chain(f"c{number}").reading(0.5, START_MS) for number in range(40)]
    calls: list[int] = []

    def count(readings: list[bytes], *others: Any) -> Any:
        calls.append(len(readings))
        return read_group(readings, *others)

    with patch("ingest.many_readings.read_group", count):
        readings, _ = decode(archive_of(*singles))
    assert calls == [40]
    assert {row["chain"] for row in readings} == {f"c{number}" for number in range(40)}
    decode_each_way(archive_of(*singles))


@pytest.mark.parametrize("value", VALUES)
def test_every_kind_of_value_is_read_in_columns(value: Any) -> None:
    chain = Device(55).chain("packed")
    pack = chain.pack([value] * 40, START_MS)
    alone = patch("ingest.many_readings.read_reading", side_effect=AssertionError("it is read alone"))
    with alone, patch("ingest.many_readings.MIN_TOGETHER", 1):
        readings, _ = decode(archive_of(pack))
    assert len(readings) == 40
    decode_each_way(archive_of(pack))


def test_events_and_readings_without_a_clock_work_in_packs() -> None:
    chain = Device(56).chain("packed")
    correction = ClockCorrection(boot_id=bytes(16), monotonic_ms=9, utc_ms=START_MS, uncertainty_ms=5)
    drafts = [
        *[chain.draft(0.5, START_MS) for _ in range(20)],
        raw_draft(GAP_INFO_TYPE, MEDIA_TYPE, NOTICE, START_MS),
        raw_draft(CORRECTION_INFO_TYPE, MEDIA_TYPE, correction.to_bytes(), START_MS),
        chain.draft(1.5, START_MS, context=CONTEXT),
        chain.draft(2.5, START_MS, context=replace(CONTEXT, boot_id=bytes(16))),
    ]
    readings, others = decode_each_way(archive_of(chain.send(drafts, START_MS)))
    assert [row["clock"] for row in readings] == [*["synchronised"] * 22, *["unsynchronised"] * 2]
    summary = summary_of(others)
    assert summary.losses == [("00" * 16, LOSS)]
    assert [correction.boot for correction in summary.corrections] == ["00" * 16]
    assert summary.boots == [CONTEXT.boot_id.hex(), "00" * 16]


@pytest.mark.parametrize("is_linked_first", [True, False])
def test_a_pack_of_which_only_some_readings_are_linked_is_in_quarantine(is_linked_first: bool) -> None:
    device = Device(58)
    linked, unlinked = (device.chain(f"{linked}", linked=linked).pack([0.5] * 20, START_MS) for linked in (True, False))
    pair = [linked, unlinked] if is_linked_first else [unlinked, linked]
    halves = [decode_binary_content(made.message.content) or [] for made in pair]
    content = encode_binary_content([*halves[0], *halves[1]])
    message = sign_message(linked.message.replace(content=content), device.signer)
    archive = Archive(device, START_MS)
    archive.file(linked, text=message.serialize().encode(), readings=40)
    readings, others = decode_each_way(archive.to_bytes())
    assert readings == []
    assert [(row["reason"], row["readings"]) for row in others[:-1]] == [("link broken", 40)]
    assert others[0]["detail"].startswith("reading 20 of 40: of it and the reading before, only one")


def test_a_message_of_another_chain_in_the_middle_is_left_out_alone() -> None:
    device = Device(57)
    chain, other = device.chain("packed"), device.chain("other")
    mine = [chain.pack([0.5] * 20, START_MS + number) for number in range(2)]
    archive = Archive(device, START_MS).add([mine[0]])
    archive.file(replace(other.pack([0.5] * 20, START_MS), chain=chain))
    readings, others = decode_each_way(archive.add([mine[1]]).to_bytes())
    assert {row["record"] for row in readings} == {0, 2}
    assert [row["reason"] for row in others[:-1]] == ["misfiled"]
