from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from ingest.account import Boot, Suspect
from ingest.clean import (
    IDENTITY,
    SIGNED_TEXT,
    apply_corrections,
    choose_quarantine,
    drop_copies,
    drop_duplicates,
    find_duplicates,
    one_row_each,
    opened_rows,
    repeated_texts,
    rows_but,
    rows_of_boots,
    suspected_rows,
)
from ingest.schemas import DECODED, MESSAGES, QUARANTINE
from ingest.summary import Correction
from tests.support.frames import at, day, frame

pytestmark = pytest.mark.slow

MESSAGE = {
    "archive": "a1",
    "record": 0,
    "device": "0xd1",
    "chain": "boiler",
    "stream_id": "s",
    "stream_partition": 0,
    "msg_chain_id": "c",
    "timestamp_ms": 1000,
    "sequence": 0,
    "reading": 0,
    "readings": 1,
    "clock": "synchronised",
    "event_time": at("2026-01-01T00:00:01"),
    "date": day("2026-01-01"),
}


def message(archive: str, record: int, timestamp_ms: int = 1000, **others: Any) -> dict[str, Any]:
    return {**MESSAGE, "archive": archive, "record": record, "timestamp_ms": timestamp_ms, **others}


def pack(archive: str, record: int, timestamp_ms: int = 1000, **others: Any) -> list[dict[str, Any]]:
    """The three rows of a message with three readings."""
    return [message(archive, record, timestamp_ms, reading=each, readings=3, **others) for each in range(3)]


def test_an_archive_that_came_twice_counts_once(spark: SparkSession) -> None:
    rows = [message("a1", 0), *pack("a1", 1), message("a2", 0)]
    assertDataFrameEqual(drop_copies(frame(spark, MESSAGES, *rows, *rows[:2])), frame(spark, MESSAGES, *rows))


def test_quarantine_is_chosen(spark: SparkSession) -> None:
    rejected = {"path": "one", "archive": "a1", "record": 3, "reason": "unsigned", "bytes": bytearray(b"x")}
    copy = {**rejected, "kind": "quarantine", "path": "copy"}
    others = [{"kind": "summary", "path": "one", "summary": "{}"}, {"kind": "file", "file": "x"}]
    decoded = frame(spark, DECODED, {**rejected, "kind": "quarantine"}, copy, *others)
    assertDataFrameEqual(choose_quarantine(decoded, ["copy"]), frame(spark, QUARANTINE, rejected))
    assert choose_quarantine(decoded, []).count() == 2


def test_a_correction_moves_the_messages_of_its_boot_to_their_true_time(spark: SparkSession) -> None:
    wrong = message("a1", 0, boot="b0", monotonic_ms=5000, clock="unsynchronised")
    other = message("a1", 1, boot="b1", monotonic_ms=5000, clock="unsynchronised")
    elsewhere = message("a1", 2, boot="b0", monotonic_ms=5000, clock="unsynchronised", device="0xd2")
    known = {Boot("0xd1", "b0"): Correction("b0", 9000, 1_790_000_000_000)}
    corrected = apply_corrections(frame(spark, MESSAGES, wrong, other, elsewhere, MESSAGE), known)
    moved = {**wrong, "clock": "corrected", "event_time": at("2026-09-21T14:13:25"), "date": day("2026-09-21")}
    assertDataFrameEqual(corrected, frame(spark, MESSAGES, moved, other, elsewhere, MESSAGE))


@pytest.mark.parametrize("offset_ms", [2**53 - 1, 5_000_000_000_000, -1_790_000_000_000])
def test_a_correction_to_a_time_out_of_range_moves_nothing(spark: SparkSession, offset_ms: int) -> None:
    wrong = message("a1", 0, boot="b0", monotonic_ms=2**53 - 1 if offset_ms > 2**52 else 5000, clock="unsynchronised")
    messages = frame(spark, MESSAGES, wrong)
    assertDataFrameEqual(apply_corrections(messages, {Boot("0xd1", "b0"): Correction("b0", 1, offset_ms)}), messages)


def test_the_messages_of_boots_are_found(spark: SparkSession) -> None:
    mine, other = message("a1", 0, boot="b0"), message("a1", 1, boot="b1")
    found = rows_of_boots(frame(spark, MESSAGES, mine, other, MESSAGE), {Boot("0xd1", "b0")})
    assertDataFrameEqual(found, frame(spark, MESSAGES, mine))


def test_readings_of_a_pack_are_distinguished_from_its_others(spark: SparkSession) -> None:
    before, moving, behind = pack("a1", 0)
    rest = rows_but(frame(spark, MESSAGES, before, moving, behind), frame(spark, MESSAGES, moving))
    assertDataFrameEqual(rest, frame(spark, MESSAGES, before, behind))


def test_a_pack_is_opened_in_the_place_of_all_its_rows(spark: SparkSession) -> None:
    locked = frame(spark, MESSAGES, *pack("a1", 0, content_state="locked"), message("a1", 1, content_state="plain"))
    again = [*pack("a1", 0, content_state="decrypted"), message("a1", 1, content_state="plain")]
    opened = opened_rows(frame(spark, MESSAGES, *again), locked)
    assertDataFrameEqual(opened, frame(spark, MESSAGES, *again[:3]))
    assertDataFrameEqual(drop_duplicates(locked, opened), frame(spark, MESSAGES, again[3]))


def test_only_the_stretch_is_suspected(spark: SparkSession) -> None:
    messages = frame(
        spark,
        MESSAGES,
        message("a1", 0, 10),
        message("a1", 1, 20),
        message("a1", 2, 20, chain="pump"),
        message("a1", 3, 31),
    )
    found = suspected_rows(messages, [Suspect("0xd1", "boiler", 15, 30)])
    assert [row.record for row in found.collect()] == [1]


def test_duplicates_are_what_is_known_and_all_but_the_first_copy(spark: SparkSession) -> None:
    new = frame(spark, MESSAGES, message("a2", 0, 10), message("a1", 7, 10), message("a2", 1, 20), message("a2", 2, 30))
    suspected = suspected_rows(new, [Suspect("0xd1", "boiler", 0, 99)])
    known = frame(spark, MESSAGES, message("a0", 0, 20), message("a0", 1, 20))
    alone = find_duplicates(suspected, None)
    assert {(row.archive, row.record) for row in alone.collect()} == {("a2", 0)}
    beside = find_duplicates(suspected, known)
    assert sorted((row.archive, row.record) for row in beside.collect()) == [("a2", 0), ("a2", 1)]
    left = drop_duplicates(new, beside)
    assertDataFrameEqual(left, frame(spark, MESSAGES, message("a1", 7, 10), message("a2", 2, 30)))


def test_a_duplicate_is_a_whole_message_with_all_its_readings(spark: SparkSession) -> None:
    once, again = pack("a1", 0, 10, signed_digest=b"1"), pack("a2", 5, 10, signed_digest=b"1")
    other, known = pack("a2", 6, 20, signed_digest=b"2"), pack("a0", 0, 20, signed_digest=b"2")
    new = frame(spark, MESSAGES, *once, *again, *other, *pack("a2", 7, 30, signed_digest=b"3"))
    by_identity = suspected_rows(new, [Suspect("0xd1", "boiler", 0, 99)])
    repeated = repeated_texts(new, frame(spark, MESSAGES, *known))
    by_text = one_row_each(new).join(repeated, on=list(SIGNED_TEXT), how="left_semi")
    assert {row.signed_digest for row in repeated.collect()} == {b"1", b"2"}
    for suspected, key in ((by_identity, IDENTITY), (by_text, SIGNED_TEXT)):
        found = find_duplicates(suspected, frame(spark, MESSAGES, *known), key)
        assert sorted((row.archive, row.record, row.readings) for row in found.collect()) == [
            ("a2", 5, 3),
            ("a2", 6, 3),
        ]
        left = drop_duplicates(new, found).select("archive", "record", "reading").collect()
        assert sorted(map(tuple, left)) == [("a1", 0, 0), ("a1", 0, 1), ("a1", 0, 2)] + [
            ("a2", 7, each) for each in range(3)
        ]


def test_messages_of_one_signed_text_are_one_message_under_whatever_identity(spark: SparkSession) -> None:
    known = frame(spark, MESSAGES, message("a0", 0, signed_digest=b"known"), message("a0", 1))  # of an earlier release
    new = [
        message("a1", 0, 10, signed_digest=b"known", stream_id="other"),
        message("a1", 1, 20, signed_digest=b"twice"),
        message("a2", 0, 30, signed_digest=b"twice", stream_partition=7),
        message("a2", 1, 40, signed_digest=b"once"),
    ]
    messages = frame(spark, MESSAGES, *new)
    assert {row.signed_digest for row in repeated_texts(messages, None).collect()} == {b"twice"}
    assert {row.signed_digest for row in repeated_texts(messages, known).collect()} == {b"known", b"twice"}
    duplicates = find_duplicates(messages, known, SIGNED_TEXT)
    assert sorted((row.archive, row.record) for row in duplicates.collect()) == [("a1", 0), ("a2", 0)]
