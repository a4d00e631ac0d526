"""Packs that a hostile device signs and archives: each ends in quarantine, at a bounded cost, and harms no other."""

import tracemalloc
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

from ingest import readings
from ingest.account import Account
from ingest.archive_rows import DecodeSettings, decode_archive
from ingest.summary import ArchiveSummary
from protocol.iomessage.content import MAX_PACK_READINGS, decode_binary_content, encode_binary_content
from protocol.streamr.group_keys.group_key import GroupKey
from protocol.streamr.stream_message import MessageType
from protocol.streamr.stream_message.signing import sign_message
from testbed.corpus.archives import Archive, Chain, Device, Made

START_MS = 1_790_000_000_000
TINY = bytes.fromhex("0004") + bytes(31)  # the shortest message there is
READING = TINY[:2] + b"\x01" + TINY[3:] + b"x"  # the shortest with an id
MAX_MEMORY = 192 * 1024 * 1024  # for a text of 4 MiB, the longest: a JSON parser makes objects of every few bytes

Rows = list[dict[str, Any]]


def decode(data: bytes) -> tuple[Rows, Rows, ArchiveSummary]:
    rows: Rows = []
    batches = list(decode_archive("x", data, 0, DecodeSettings(), lambda batch: rows.extend(batch.to_pylist())))
    *quarantine, summary = [row for batch in batches for row in batch.to_pylist()]
    return rows, quarantine, ArchiveSummary.from_json(summary["summary"])


def with_content(made: Made, content: str, **others: Any) -> bytes:
    message = made.message.replace(content=content, **others)
    return sign_message(message, made.chain.device.signer).serialize().encode()


def nested(depth: int) -> str:
    return '{"ioMessages":' + "[" * depth + "]" * depth + "}"


def distinct_headers(count: int) -> list[bytes]:
    """Readings of which no two have the same lengths."""
    sizes = [divmod(number, 32) for number in range(count)]
    return [TINY[:2] + bytes([1 + a, 0, b]) + TINY[5:] + bytes(1 + a + b) for a, b in sizes]


CONTENTS: dict[str, tuple[str, str]] = {
    "no reading": ('{"ioMessages":""}', "content unreadable"),
    "no reading in JSON": ('{"ioMessages":[]}', "content unreadable"),
    "bytes behind the last reading": (encode_binary_content([READING, READING, b"\x00"]), "content unreadable"),
    "a reading cut short": (encode_binary_content([READING, READING[:-1]]), "content unreadable"),
    "a million readings": (encode_binary_content([TINY] * 90_000), "content unreadable"),
    "a million readings in JSON": ('{"ioMessages":[' + "{}," * 1_000_000 + "{}]}", "content unreadable"),
    "nested": (nested(1_000_000), "content unreadable"),
    "nested a little": (nested(100), "content unreadable"),
    "too many readings": (encode_binary_content([READING] * (MAX_PACK_READINGS + 1)), "content unreadable"),
    "a reading of another version": (encode_binary_content([READING, b"\x00\x05" + READING[2:]]), "content unreadable"),
    "headers that all differ": (encode_binary_content(distinct_headers(900)), "readings miscounted"),
    "a pack where the archive states one reading": (encode_binary_content([READING] * 3), "readings miscounted"),
}


@pytest.mark.parametrize(("content", "reason"), CONTENTS.values(), ids=CONTENTS)
def test_a_hostile_pack_ends_in_quarantine_within_bounds(content: str, reason: str) -> None:
    device = Device(61)
    honest, hostile = device.chain("honest"), device.chain("hostile")
    first, second = (honest.pack([0.5] * 20, START_MS + number) for number in range(2))
    bad = hostile.reading(0.5, START_MS)
    archive = Archive(device, START_MS, block_target_bytes=2**20).add([first])
    archive.file(bad, text=with_content(bad, content))
    data = archive.add([second]).to_bytes()
    tracemalloc.start()
    with patch("ingest.readings.read_reading", side_effect=readings.read_reading) as read:
        rows, quarantine, summary = decode(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < MAX_MEMORY
    assert read.call_count <= MAX_PACK_READINGS
    assert [(row["reason"], row["readings"]) for row in quarantine] == [(reason, 1)]
    assert len(rows) == 40
    assert_balanced(summary, hostile=1, honest=40)


def assert_balanced(summary: ArchiveSummary, *, hostile: int, honest: int) -> None:
    """The ledger counts readings, those in quarantine as the archive states them."""
    account = Account()
    account.add([summary], {})
    ledger = {row["chain"]: row for row in account.ledger()}
    assert (ledger["hostile"]["archived"], ledger["hostile"]["quarantined"]) == (hostile, hostile)
    assert (ledger["honest"]["archived"], ledger["honest"]["ingested"], ledger["honest"]["balanced"]) == (
        honest, honest, True,
    )  # fmt: skip
    assert ledger["hostile"]["archived"] == ledger["hostile"]["ingested"] + ledger["hostile"]["quarantined"]


def plain(chain: Chain) -> Made:
    return chain.pack([0.5] * 3, START_MS)


def locked(chain: Chain, readings: int = 3) -> Made:
    chain.key, chain.readable = GroupKey("unknown", b"\x11" * 32), False
    return chain.pack([0.5] * readings, START_MS)


def large_and_locked(chain: Chain) -> Made:
    """Long enough for more readings than a message may have."""
    return locked(chain, 300)


@pytest.mark.parametrize(
    ("make", "stated"),
    [
        *[(plain, stated) for stated in (1, 2, 4, 65_535)],
        *[(locked, stated) for stated in (30, 1001, 65_535)],
        (large_and_locked, 1001),
    ],
)
def test_an_archive_that_states_another_number_of_readings_is_not_believed(
    make: Callable[[Chain], Made], stated: int
) -> None:
    device = Device(62)
    honest, hostile = device.chain("honest"), device.chain("hostile")
    archive = Archive(device, START_MS).add([honest.pack([0.5] * 3, START_MS)])
    archive.file(make(hostile), readings=stated)
    rows, quarantine, summary = decode(archive.to_bytes())
    assert [(row["reason"], row["readings"]) for row in quarantine] == [("readings miscounted", stated)]
    assert f"the archive states {stated} readings" in quarantine[0]["detail"]
    assert len(rows) == 3
    assert_balanced(summary, hostile=stated, honest=3)


def test_what_is_no_reading_counts_as_one() -> None:
    device = Device(63)
    made = device.chain("hostile").pack([0.5] * 3, START_MS)
    shown = with_content(made, made.message.content, message_type=MessageType.GROUP_KEY_REQUEST)
    archive = Archive(device, START_MS)
    archive.file(made, text=shown)
    rows, quarantine, _ = decode(archive.to_bytes())
    assert rows == []
    assert [(row["reason"], row["readings"]) for row in quarantine] == [("readings miscounted", 3)]
    archive = Archive(device, START_MS)
    archive.file(made, text=shown, readings=1)
    rows, quarantine, _ = decode(archive.to_bytes())
    assert [(row["content_state"], row["reading"], row["readings"]) for row in rows] == [("other", 0, 1)]


def test_a_locked_pack_has_as_many_rows_as_the_archive_states_and_balances() -> None:
    device = Device(64)
    made = [locked(device.chain("honest")), device.chain("hostile").pack([0.5] * 2, START_MS)]
    archive = Archive(device, START_MS).add(made[:1])
    archive.file(made[1], text=b"nonsense")
    rows, quarantine, summary = decode(archive.to_bytes())
    assert [(row["content_state"], row["reading"], row["readings"]) for row in rows] == [
        ("locked", each, 3) for each in range(3)
    ]
    assert [row["readings"] for row in quarantine] == [2]
    assert_balanced(summary, hostile=2, honest=3)


def test_a_pack_of_readings_of_another_chain_does_not_pass_for_a_continuation() -> None:
    """Readings that another chain of the device linked, in a message of this chain."""
    device = Device(65)
    honest, other = device.chain("honest"), device.chain("hostile")
    first, second = (honest.pack([0.5] * 20, START_MS + number) for number in range(2))
    foreign = [other.pack([0.5] * 20, START_MS + number) for number in range(2)]
    archive = Archive(device, START_MS).add([first])
    archive.file(second, text=with_content(second, foreign[1].message.content))
    rows, quarantine, summary = decode(archive.to_bytes())
    assert quarantine == []
    assert [row["link"] for row in rows if row["record"] == 1] == ["forked", *["linked"] * 19]
    assert summary.chains["honest"].forked == 1
    spliced = Archive(device, START_MS)
    halves = [decode_halves(first), decode_halves(foreign[0])]
    spliced.file(first, text=with_content(first, encode_binary_content([*halves[0][0], *halves[1][1]])))
    rows, quarantine, _ = decode(spliced.to_bytes())
    assert rows == []
    assert [(row["reason"], row["detail"][:17]) for row in quarantine] == [("link broken", "reading 10 of 20:")]


def decode_halves(made: Made) -> tuple[list[bytes], list[bytes]]:
    found = decode_binary_content(made.message.content) or []
    return found[: len(found) // 2], found[len(found) // 2 :]
