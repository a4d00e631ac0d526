"""Promise 5 of the journal: flip any byte of any file, and only its records are gone, counted and reported."""

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from agent.journal import Entry, Journal, JournalSettings, Record
from agent.journal.repair import repair, verify
from tests.effort import FIRST_SEED, effort
from tests.support.simulated_disk import SimulatedDisk

NOW_MS = 1_700_000_000_000
SEGMENT_BYTES = 16 * 1024
READINGS = (1, 3, 250, 1, 2, 40)  # of the records of each block
RECORDS_PER_BLOCK = len(READINGS)
READINGS_PER_BLOCK = sum(READINGS)
COMMITS = 5
MAX_PAYLOAD_BYTES = 300
SOME_BYTES = effort(test=200, soak=20_000)
EVERY_BYTE_OF = {"commits": effort(test=2, soak=5), "max_payload_bytes": effort(test=60, soak=300)}


def _settings(compression: str) -> JournalSettings:
    return JournalSettings(
        max_bytes=1 << 20,
        segment_bytes=SEGMENT_BYTES,
        compression="zstd" if compression == "zstd" else "none",
        cursors=("publisher", "archiver"),
        positions_interval_ms=0,
    )


def _filled_disk(
    compression: str, *, commits: int = COMMITS, max_payload_bytes: int = MAX_PAYLOAD_BYTES
) -> SimulatedDisk:
    """Two lanes, several segments, a cursor in the middle of the first."""
    chance = random.Random(1)
    disk = SimulatedDisk()
    journal = Journal(disk, _settings(compression), new_journal_id=99, now_ms=NOW_MS)
    for number in range(commits):
        for lane in (0, 2):
            entries = [
                Entry(
                    chance.randbytes(chance.randint(0, max_payload_bytes)),
                    f"chain {at % 3}",
                    NOW_MS + number,
                    at,
                    count,
                )
                for at, count in enumerate(READINGS)
            ]
            journal.append_many(lane, entries)
        journal.commit(NOW_MS)
    publisher = journal.cursor("publisher")
    publisher.acknowledge(0, publisher.take(4)[-1].next_position - 1)
    journal.close(NOW_MS)
    return disk


def _open(disk: SimulatedDisk, compression: str) -> Journal:
    return Journal(disk, _settings(compression), new_journal_id=1, now_ms=NOW_MS)


def _read_all(journal: Journal) -> list[Record]:
    cursor = journal.cursor("archiver")
    records = []
    while taken := cursor.take(1000):
        records += taken
    return records


def _flipped(disk: SimulatedDisk, name: str, offset: int, bit: int) -> SimulatedDisk:
    flipped = disk.after_kill()
    flipped.files[name].content[offset] ^= 1 << bit
    return flipped


def _places(disk: SimulatedDisk) -> Iterator[tuple[str, int]]:
    """Every byte that is not padding or unused."""
    for name, file in sorted(disk.files.items()):
        for offset, value in enumerate(file.content):
            if value:
                yield name, offset


def _check_flip(disk: SimulatedDisk, whole: list[Record], compression: str, name: str, offset: int, bit: int) -> None:
    journal = _open(_flipped(disk, name, offset, bit), compression)
    publisher_position = journal.cursor("publisher").position(0)
    records = _read_all(journal)
    assert publisher_position <= sum(READINGS[:4]), "damage moved a cursor forward"
    found = {(record.lane, record.position): record for record in records}
    expected = [record for record in whole if (record.lane, record.position) in found]
    assert records == expected, "a record was invented or moved"
    lost = [record for record in whole if (record.lane, record.position) not in found]
    if name.startswith("state"):
        assert lost == []
        return
    assert len(lost) <= (RECORDS_PER_BLOCK if compression == "zstd" else 1)
    assert len({(record.lane, record.position // READINGS_PER_BLOCK) for record in lost}) <= 1
    reported = sum(gap.loss.count for gap in journal.pending_losses())
    assert reported == sum(record.readings for record in lost)
    stats = journal.stats(NOW_MS)
    assert stats.damaged_readings == (0 if stats.torn_tails else reported)  # the end of a lane may be a torn commit


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_flipped_byte_anywhere_costs_only_its_records(compression: str) -> None:
    disk = _filled_disk(compression)
    whole = _read_all(_open(disk.after_kill(), compression))
    assert len(whole) == COMMITS * 2 * RECORDS_PER_BLOCK
    chance = random.Random(2 + FIRST_SEED)
    places = list(_places(disk))
    for name, offset in chance.choices(places, k=SOME_BYTES):
        _check_flip(disk, whole, compression, name, offset, chance.randrange(8))


@pytest.mark.slow
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_every_single_byte_may_be_flipped(compression: str) -> None:
    disk = _filled_disk(compression, **EVERY_BYTE_OF)
    whole = _read_all(_open(disk.after_kill(), compression))
    for name, offset in _places(disk):
        _check_flip(disk, whole, compression, name, offset, offset % 8)


def test_verify_reports_new_damage_and_repair_leaves_none() -> None:
    disk = _filled_disk("none")
    offset = 4096 + 700  # in the second block of the first file
    damaged = _flipped(disk, "0000.segment", offset, 3)
    verdict = verify(damaged)
    assert not verdict.is_sound
    assert [loss.count for loss in verdict.damage] == [READINGS[1]]
    done = repair(damaged, new_journal_id=1, now_ms=NOW_MS)
    assert (done.rewritten_segments, done.lost_readings) == (1, READINGS[1])
    after = verify(damaged)
    assert after.is_sound
    assert (after.records, after.known) == (verdict.records, ())
    journal = _open(damaged, "none")
    [gap] = journal.pending_losses()
    assert replace(gap.loss, number=0) == verdict.damage[0]
    assert len(_read_all(journal)) == verdict.records


def test_damage_is_reported_once_however_many_cursors_meet_it() -> None:
    disk = _flipped(_filled_disk("none"), "0000.segment", 4096 + 700, 3)
    journal = _open(disk, "none")
    for name in ("archiver", "publisher"):
        while journal.cursor(name).take(100):
            pass
    journal.close(NOW_MS)
    journal = _open(disk, "none")
    while journal.cursor("publisher").take(100):
        pass
    assert _reported(journal) == [READINGS[1]]
    assert journal.stats(NOW_MS).damaged_readings == READINGS[1]


BLOCK_BYTES = 4096  # each commit of `_filled_disk` takes a page


def _rot(disk: SimulatedDisk, block: int, *, byte: int = 700) -> None:
    disk.files["0000.segment"].content[BLOCK_BYTES * block + byte] ^= 1


def _reported(journal: Journal) -> list[int]:
    return [gap.loss.count for gap in journal.pending_losses()]


def _drain(journal: Journal, name: str) -> None:
    while journal.cursor(name).take(100):
        pass


def test_damage_behind_reported_damage_is_reported_too() -> None:
    disk = _filled_disk("zstd")
    journal = _open(disk, "zstd")
    _rot(disk, 2)
    _drain(journal, "publisher")
    _rot(disk, 1)
    _drain(journal, "archiver")
    assert _reported(journal) == [READINGS_PER_BLOCK] * 2
    assert journal.stats(NOW_MS).damaged_readings == 2 * READINGS_PER_BLOCK


def test_damage_that_comes_to_the_last_segment_after_opening_is_reported() -> None:
    disk = _filled_disk("zstd")
    journal = _open(disk, "zstd")
    last = max(journal._store.lanes[2].segments, key=lambda segment: segment.first_position)
    disk.files[f"{last.file:04}.segment"].content[700] ^= 1
    _drain(journal, "archiver")
    assert _reported(journal) == [READINGS_PER_BLOCK]


def test_a_block_that_rots_again_is_reported_with_what_it_lost_since() -> None:
    disk = _filled_disk("none")
    journal = _open(disk, "none")
    _rot(disk, 1, byte=1000)
    _drain(journal, "publisher")
    assert _reported(journal) == [READINGS[3]]
    _rot(disk, 1, byte=500)
    _drain(journal, "archiver")
    assert _reported(journal) == [READINGS[3], READINGS[1]]
    assert journal.stats(NOW_MS).damaged_readings == READINGS[3] + READINGS[1]


def test_blocks_that_vanish_are_reported_without_the_damage_that_was_reported_before() -> None:
    disk = _filled_disk("none")
    journal = _open(disk, "none")
    _rot(disk, 1, byte=1000)
    _drain(journal, "publisher")
    [before] = _reported(journal)
    disk.files["0000.segment"].content[BLOCK_BYTES : 3 * BLOCK_BYTES] = bytes(2 * BLOCK_BYTES)
    _drain(journal, "archiver")
    assert _reported(journal) == [before, 2 * READINGS_PER_BLOCK - before]
    assert journal.stats(NOW_MS).damaged_readings == 2 * READINGS_PER_BLOCK
    journal.cursor("publisher").rewind()
    _drain(journal, "publisher")
    assert len(_reported(journal)) == 2


def test_damage_to_what_every_cursor_has_passed_is_no_loss() -> None:
    disk = _filled_disk("zstd")
    journal = _open(disk, "zstd")
    passed = journal.cursor("publisher").position(0)
    journal.cursor("archiver").acknowledge(0, passed - 1)
    _rot(disk, 0)
    _drain(journal, "archiver")
    [gap] = journal.pending_losses()
    assert (gap.loss.first_position, gap.loss.count) == (passed, READINGS_PER_BLOCK - passed)


def test_a_bad_reading_that_passes_does_not_hide_damage_that_comes_after_it() -> None:
    disk = _filled_disk("none")
    journal = _open(disk, "none")
    _rot(disk, 1, byte=1000)
    _drain(journal, "publisher")
    _rot(disk, 1, byte=1000)
    _rot(disk, 1, byte=500)
    _drain(journal, "archiver")
    assert sum(_reported(journal)) == max(READINGS[1], READINGS[3] + 1)


def test_damage_in_more_places_than_are_remembered_is_reported_as_one_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.journal.store.MAX_REPORTED_CHUNKS", 1)
    disk = _filled_disk("zstd")
    journal = _open(disk, "zstd")
    for block in (0, 2):
        _rot(disk, block)
    _drain(journal, "publisher")
    _rot(disk, 1)
    _drain(journal, "archiver")
    reported = [(gap.loss.first_position, gap.loss.count) for gap in journal.pending_losses()]
    assert reported == [(0, READINGS_PER_BLOCK), (0, 2 * READINGS_PER_BLOCK)]
    journal.close(NOW_MS)
    journal = _open(disk, "zstd")
    _drain(journal, "archiver")
    assert _reported(journal) == [READINGS_PER_BLOCK, 2 * READINGS_PER_BLOCK]


def test_without_any_state_everything_is_sent_again_and_nothing_is_skipped() -> None:
    disk = _filled_disk("zstd")
    whole = _read_all(_open(disk.after_kill(), "zstd"))
    for name in ("state-0", "state-1"):
        disk.files[name].content[:] = bytes(len(disk.files[name].content))
    journal = _open(disk, "zstd")
    assert journal.cursor("publisher").position(0) == 0
    assert _read_all(journal) == whole
    assert journal.stats(NOW_MS).lost_states == 1
    assert journal.append(0, Entry(b"next", "chain 1", NOW_MS, 1)) == COMMITS * READINGS_PER_BLOCK


def test_a_segment_file_that_vanished_costs_its_records_only() -> None:
    disk = _filled_disk("none")
    whole = _read_all(_open(disk.after_kill(), "none"))
    disk.remove("0000.segment")
    journal = _open(disk, "none")
    records = _read_all(journal)
    assert 0 < len(records) < len(whole)
    assert sum(_reported(journal)) == sum(record.readings for record in whole) - sum(
        record.readings for record in records
    )
    journal.append(0, Entry(b"next", "chain 1", NOW_MS, 1))
    journal.commit(NOW_MS)
    assert _read_all(journal)[-1].payload == b"next"
