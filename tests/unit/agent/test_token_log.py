from pathlib import Path

import pytest

from agent.batch import Batch
from agent.errors import StorageError
from agent.journal import DirectoryDisk, Entry, Journal, JournalSettings
from agent.journal.inspection import look
from agent.routing import Route
from agent.token_log import LastingReadings, Placed, Recalled, TokenLog
from agent.wrap import Refused
from drivers import Reading

NOTHING = Recalled([], set())
HUGE = 2**150  # a token may be wider than any machine word


def committed_journal(folder: Path, records: int) -> None:
    journal = Journal(DirectoryDisk(folder), JournalSettings(), new_journal_id=1, now_ms=0)
    journal.append_many(4, [Entry(b"x", "chain", at, 0) for at in range(records)], 0)
    journal.close(0)


def test_what_stands_at_its_place_was_committed_and_the_rest_was_lost(tmp_path: Path) -> None:
    committed_journal(tmp_path / "journal", 3)
    TokenLog(tmp_path).note({"mcu": [Placed(HUGE, 4, 1), Placed(HUGE + 1, 4, 2), Placed(HUGE + 2, 4, 3)]})
    log = TokenLog(tmp_path)
    log.compare(look(DirectoryDisk(tmp_path / "journal")))
    assert log.recall("mcu") == ([HUGE, HUGE + 1, HUGE + 2], {HUGE + 2})
    assert log.recall("other") == NOTHING


def test_a_lane_that_does_not_exist_holds_nothing(tmp_path: Path) -> None:
    committed_journal(tmp_path / "journal", 3)
    TokenLog(tmp_path).note({"mcu": [Placed(7, 2, 0)]})
    log = TokenLog(tmp_path)
    log.compare(look(DirectoryDisk(tmp_path / "journal")))
    assert log.recall("mcu").lost == {7}


def test_the_last_note_of_each_source_is_kept(tmp_path: Path) -> None:
    log = TokenLog(tmp_path)
    log.note({"one": [Placed(1, 4, 0)]})
    log.note({"two": [Placed(2, 4, 1)]})
    log.note({"one": [Placed(3, 4, 2)]})
    again = TokenLog(tmp_path)
    assert again.recall("one").latest == [3]
    assert again.recall("two").latest == [2]


@pytest.mark.parametrize("cut", range(12))
def test_a_note_that_a_power_cut_tore_leaves_the_one_before(tmp_path: Path, cut: int) -> None:
    log = TokenLog(tmp_path)
    log.note({"mcu": [Placed(1, 4, 0)]})
    log.note({"mcu": [Placed(2, 4, 1)]})
    newest = tmp_path / "tokens.0"
    newest.write_bytes(newest.read_bytes()[: cut * 4])
    assert TokenLog(tmp_path).recall("mcu").latest == [1]


@pytest.mark.parametrize("content", [b"", b"00000000 ", b"zz", b"d202ef8d\x00", b"[" * 10_000, b"ad41d5ef {}"])
def test_a_file_that_is_not_ours_counts_as_empty(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tokens.0").write_bytes(content)
    assert TokenLog(tmp_path).recall("mcu") == NOTHING


def test_a_disk_that_refuses_is_told_and_the_other_file_is_spared(tmp_path: Path) -> None:
    log = TokenLog(tmp_path)
    log.note({"mcu": [Placed(1, 4, 0)]})
    (tmp_path / "tokens.0").mkdir()
    for _ in range(2):
        with pytest.raises(StorageError, match=r"tokens\.0"):
            log.note({"mcu": [Placed(2, 4, 0)]})
    assert TokenLog(tmp_path).recall("mcu").latest == [1]


def test_readings_are_placed_lane_by_lane_without_those_that_no_message_can_hold() -> None:
    ours = [Reading("s", "q", at, taken_at_ms=1, token=at) for at in range(4)]
    others = [Reading("s", "q", at, taken_at_ms=1) for at in range(2)]
    lasting = LastingReadings([Batch("other", others), Batch("mcu", ours, is_lasting=True)])
    high, low = Route("a", 0, "binary", 2, "", "none"), Route("b", 0, "binary", 4, "", "none")
    routed = [
        (low, [others[0], ours[0], ours[1]]),
        (high, [ours[2]]),
        (low._replace(stream_id="c"), [others[1], ours[3]]),
    ]
    places = lasting.place(routed, [Refused(ours[0], "why")], {2: 10, 4: 20})
    assert places == {"mcu": [Placed(1, 4, 21), Placed(2, 2, 10), Placed(3, 4, 23)]}


def test_a_commit_without_lasting_tokens_has_nothing_to_note() -> None:
    assert not LastingReadings([Batch("other", [Reading("s", "q", 1, taken_at_ms=1, token=5)])])


def test_the_documented_file_is_read(tmp_path: Path) -> None:
    document = (Path(__file__).parents[3] / "docs" / "wire-formats.md").read_text()
    [example] = [line.strip() for line in document.splitlines() if '{"number": 12, "sources"' in line]
    (tmp_path / "tokens.1").write_text(example)
    assert TokenLog(tmp_path).recall("mcu").latest == [13497236296974650873755317165416193656496249125636]
