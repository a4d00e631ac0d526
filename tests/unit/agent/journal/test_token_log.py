import contextlib
import errno
import itertools
import os
import random
from pathlib import Path

import pytest

from agent.errors import StorageError
from agent.journal import DirectoryDisk, Entry, Journal, JournalSettings
from agent.journal.inspection import inspect_journal
from agent.journal.token_log import Noted, Recalled, TokenLog, digest_of
from tests.effort import seeds
from tests.support.crashing_folder import CrashingFolder

NOTHING = Recalled([], set())
SMALL = JournalSettings(max_bytes=4 << 20, segment_bytes=256 << 10)
HUGE = 2**150  # a token may be wider than any machine word


def commit(folder: Path, payloads: list[bytes], readings: int = 1) -> None:
    journal = Journal(DirectoryDisk(folder / "journal"), SMALL, new_journal_id=1, now_ms=0)
    journal.append_many(4, [Entry(payload, "chain", 1, at, readings) for at, payload in enumerate(payloads)])
    journal.close(0)


def fill_until_released(folder: Path, first: int) -> None:
    journal = Journal(DirectoryDisk(folder / "journal"), SMALL, new_journal_id=1, now_ms=0)
    for at in range(20):
        journal.append_many(4, [Entry(os.urandom(60_000), "chain", 2, at)])
        journal.commit(0)
        journal.cursor("publisher").acknowledge(4, first + at)
    journal.close(0)


def note(log: TokenLog, source: str, first_position: int, *readings: tuple[int, bytes]) -> None:
    places = enumerate(readings, first_position)
    log.note({source: [Noted(token, 4, position, digest_of(payload)) for position, (token, payload) in places]})


def restarted(folder: Path) -> TokenLog:
    log = TokenLog(folder)
    with contextlib.closing(DirectoryDisk(folder / "journal", read_only=True)) as disk:
        log.compare(inspect_journal(disk))
    return log


def test_what_the_journal_has_was_committed_and_the_rest_was_lost(tmp_path: Path) -> None:
    commit(tmp_path, [b"x", b"a", b"b"])
    note(TokenLog(tmp_path), "mcu", 1, (HUGE, b"a"), (HUGE + 1, b"b"), (HUGE + 2, b"c"))
    log = restarted(tmp_path)
    assert log.recall("mcu") == ([HUGE, HUGE + 1, HUGE + 2], {HUGE + 2})
    assert log.recall("other") == NOTHING


def test_readings_of_one_message_are_found_by_their_own_positions(tmp_path: Path) -> None:
    commit(tmp_path, [b"pack 0", b"pack 1"], readings=3)
    packs = [b"pack 0"] * 3 + [b"pack 1"] * 3 + [b"pack 2"] * 2
    note(TokenLog(tmp_path), "mcu", 0, *enumerate(packs))
    assert restarted(tmp_path).recall("mcu") == (list(range(8)), {6, 7})


def test_a_reading_is_not_found_in_the_message_beside_its_position(tmp_path: Path) -> None:
    commit(tmp_path, [b"pack 0", b"pack 1"], readings=3)
    note(TokenLog(tmp_path), "mcu", 2, (7, b"pack 1"), (8, b"pack 0"))
    assert restarted(tmp_path).recall("mcu").lost == {7, 8}


def test_a_lane_that_does_not_exist_holds_nothing(tmp_path: Path) -> None:
    commit(tmp_path, [b"x"])
    TokenLog(tmp_path).note({"mcu": [Noted(7, 2, 0, digest_of(b"x"))]})
    assert restarted(tmp_path).recall("mcu").lost == {7}


def test_a_record_of_another_source_at_the_noted_position_is_not_taken_for_the_reading(tmp_path: Path) -> None:
    commit(tmp_path, [b"x"])
    note(TokenLog(tmp_path), "mcu", 1, (7, b"mine"))
    commit(tmp_path, [b"of another source"])
    assert restarted(tmp_path).recall("mcu").lost == {7}


def test_the_answer_is_durable_before_the_next_commit_so_a_released_position_does_not_change_it(tmp_path: Path) -> None:
    commit(tmp_path, [b"x"])
    note(TokenLog(tmp_path), "mcu", 1, (7, b"never committed"))
    assert restarted(tmp_path).recall("mcu").lost == {7}
    fill_until_released(tmp_path, 1)
    with contextlib.closing(DirectoryDisk(tmp_path / "journal", read_only=True)) as disk:
        assert inspect_journal(disk).lanes[4].first_position > 1
    assert restarted(tmp_path).recall("mcu").lost == {7}


def test_a_record_that_every_reader_has_passed_and_the_journal_released_was_committed(tmp_path: Path) -> None:
    note(TokenLog(tmp_path), "mcu", 0, (7, b"mine"))
    commit(tmp_path, [b"mine"])
    fill_until_released(tmp_path, 1)
    assert restarted(tmp_path).recall("mcu") == ([7], set())


def test_a_disk_that_refuses_the_answers_is_asked_again_before_the_first_commit(tmp_path: Path) -> None:
    commit(tmp_path, [b"x"])
    note(TokenLog(tmp_path), "mcu", 1, (7, b"never committed"))
    (tmp_path / "tokens.0").mkdir()
    log = restarted(tmp_path)
    assert log.recall("mcu").lost == {7}
    with pytest.raises(StorageError, match=r"tokens\.0"):
        log.note({})
    (tmp_path / "tokens.0").rmdir()
    log.note({})
    commit(tmp_path, [b"of another source"])
    assert TokenLog(tmp_path).recall("mcu").lost == {7}


@pytest.mark.parametrize("seed", seeds(test=3, soak=500))
def test_the_name_of_a_new_file_is_durable_too(tmp_path: Path, seed: int) -> None:
    with CrashingFolder(tmp_path / "data") as folder:
        log = TokenLog(folder.path)
        for token in (1, 2):
            note(log, "mcu", token, (token, b"a"))
        found = folder.after_power_loss(tmp_path / "found", random.Random(seed))
    commit(found, [])
    assert restarted(found).recall("mcu").latest == [2]


def test_a_commit_without_tokens_writes_nothing(tmp_path: Path) -> None:
    TokenLog(tmp_path).note({})
    assert not list(tmp_path.iterdir())


def test_the_last_note_of_each_source_is_kept(tmp_path: Path) -> None:
    log = TokenLog(tmp_path)
    note(log, "one", 0, (1, b"a"))
    note(log, "two", 1, (2, b"b"))
    note(log, "one", 2, (3, b"c"))
    commit(tmp_path, [b"a", b"b", b"c"])
    again = restarted(tmp_path)
    assert again.recall("one") == ([3], set())
    assert again.recall("two") == ([2], set())


def test_what_this_process_noted_and_committed_is_not_lost_to_a_driver_that_begins_again(tmp_path: Path) -> None:
    log = TokenLog(tmp_path)
    note(log, "mcu", 0, (1, b"a"))
    assert log.recall("mcu") == ([1], set())


@pytest.mark.parametrize("cut", range(12))
def test_a_note_that_a_power_cut_tore_leaves_the_previous_one(tmp_path: Path, cut: int) -> None:
    log = TokenLog(tmp_path)
    note(log, "mcu", 0, (1, b"a"))
    note(log, "mcu", 1, (2, b"b"))
    newest = tmp_path / "tokens.0"
    newest.write_bytes(newest.read_bytes()[: cut * 4])
    commit(tmp_path, [b"a"])
    assert restarted(tmp_path).recall("mcu") == ([1], set())


@pytest.mark.parametrize(
    "content", [b"", b"00000000 ", b"zz", b"d202ef8d\x00", b"[" * 10_000, b"ad41d5ef {}", b"d5bbd40d [1]"]
)
def test_a_file_that_is_not_ours_counts_as_empty(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tokens.0").write_bytes(content)
    assert TokenLog(tmp_path).recall("mcu") == NOTHING


def test_a_disk_that_refuses_is_reported_and_the_other_file_is_spared(tmp_path: Path) -> None:
    log = TokenLog(tmp_path)
    note(log, "mcu", 0, (1, b"a"))
    (tmp_path / "tokens.0").mkdir()
    for _ in range(2):
        with pytest.raises(StorageError, match=r"tokens\.0"):
            note(log, "mcu", 0, (2, b"b"))
    commit(tmp_path, [b"a"])
    assert restarted(tmp_path).recall("mcu") == ([1], set())


def test_the_documented_file_is_read(tmp_path: Path) -> None:
    document = (Path(__file__).parents[4] / "docs" / "wire-formats.md").read_text()
    [example] = [line.strip() for line in document.splitlines() if '{"version": 2, "number": 12' in line]
    (tmp_path / "tokens.1").write_text(example)
    commit(tmp_path, [])
    assert restarted(tmp_path).recall("mcu") == (
        [13497236296974650873755317165416193656496249125636],
        {13497236296974650873755317165416193656496249125636},
    )
    assert TokenLog(tmp_path).recall("other") == ([5], set())


def test_a_note_that_an_earlier_process_failed_to_sync_is_made_durable_before_the_other_file_is_overwritten(
    tmp_path: Path,
) -> None:
    many = [(token, b"x") for token in range(100)]  # several sectors, so that a write can be torn
    for seed in seeds(test=3, soak=500):
        with CrashingFolder(tmp_path / str(seed)) as folder:
            log = TokenLog(folder.path)
            note(log, "mcu", 0, *many)
            note(log, "mcu", 100, *many)
            folder.fault = lambda operation, _: errno.EIO if operation == "sync" else None
            with pytest.raises(StorageError):
                note(log, "mcu", 200, *many)
            syncs = itertools.count(1)
            folder.fault = lambda operation, _: errno.EIO if operation == "sync" and next(syncs) == 2 else None  # noqa: B023
            with pytest.raises(StorageError):
                note(TokenLog(folder.path), "mcu", 300, *many)
            found = folder.after_power_loss(tmp_path / f"found {seed}", random.Random(seed))
            assert TokenLog(found).recall("mcu") != NOTHING


def test_answers_that_only_the_page_cache_may_have_are_written_again_before_a_commit(tmp_path: Path) -> None:
    for seed in seeds(test=3, soak=500):
        with CrashingFolder(tmp_path / str(seed)) as folder:
            note(TokenLog(folder.path), "mcu", 0, (7, b"never committed"))
            commit(folder.path, [])
            syncs = itertools.count(1)  # the first is of the note, the second of the answers
            folder.fault = lambda operation, _: errno.EIO if operation == "sync" and next(syncs) == 2 else None  # noqa: B023
            assert restarted(folder.path).recall("mcu").lost == {7}
            folder.fault = lambda _operation, _path: None
            restarted(folder.path).note({})  # another source is about to commit at the position
            commit(folder.path, [b"of another source"])
            fill_until_released(folder.path, 1)
            found = folder.after_power_loss(tmp_path / f"found {seed}", random.Random(seed))
        assert restarted(found).recall("mcu").lost == {7}
