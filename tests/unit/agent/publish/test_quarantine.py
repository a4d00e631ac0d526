import base64
import errno
import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.errors import StorageError
from agent.journal import Record
from agent.publish.quarantine import Quarantine, RejectedRecord
from tests.support.publish_records import NOW_MS, record


def test_an_entry_says_what_it_is_and_why(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "aside.jsonl"
    Quarantine(path, "cloud").add(
        [RejectedRecord(record(7, lane=2, payload=b'["text"]', readings=3), "no\nthanks")], NOW_MS
    )
    assert json.loads(path.read_text()) == {
        "quarantined_at_ms": NOW_MS,
        "publisher": "cloud",
        "reason": "no\nthanks",
        "lane": 2,
        "position": 7,
        "chain": "chain",
        "timestamp_ms": NOW_MS + 7,
        "sequence": 0,
        "readings": 3,
        "message": '["text"]',
    }


def test_bytes_that_are_no_text_are_kept_too(tmp_path: Path) -> None:
    path = tmp_path / "aside.jsonl"
    Quarantine(path, "cloud").add([RejectedRecord(record(0, payload=b"\xff"), "x" * 5_000)], NOW_MS)
    reported = json.loads(path.read_text())
    assert base64.b64decode(reported["message_base64"]) == b"\xff"
    assert len(reported["reason"]) == 1_000


def fill(quarantine: Quarantine, count: int) -> None:
    for number in range(count):
        quarantine.add([RejectedRecord(record(number), "no")], NOW_MS)


def positions_in(folder: Path) -> list[int]:
    lines = [line for path in folder.iterdir() for line in path.read_text().splitlines()]
    return sorted(json.loads(line)["position"] for line in lines)


def test_full_files_are_numbered_and_nothing_is_removed_before_there_are_too_many(tmp_path: Path) -> None:
    quarantine = Quarantine(tmp_path / "aside.jsonl", "cloud", max_bytes=1_000, max_files=8)
    fill(quarantine, 20)
    names = sorted(each.name for each in tmp_path.iterdir())
    assert names[:3] == ["aside.jsonl", "aside.jsonl.1", "aside.jsonl.2"]
    assert positions_in(tmp_path) == list(range(20))


def test_what_is_removed_is_recorded_as_lost_before(tmp_path: Path) -> None:
    lost: list[int] = []

    def removing(records: Sequence[Record]) -> None:
        lost.extend(each.position for each in records)

    quarantine = Quarantine(tmp_path / "aside.jsonl", "cloud", max_bytes=1_000, max_files=2, on_removal=removing)
    fill(quarantine, 40)
    assert len(list(tmp_path.iterdir())) == 2
    assert sum(each.stat().st_size for each in tmp_path.iterdir()) <= 2 * 1_200
    assert sorted(lost + positions_in(tmp_path)) == list(range(40))


def test_all_readings_of_a_removed_pack_are_recorded_as_lost(tmp_path: Path) -> None:
    lost: list[Record] = []
    quarantine = Quarantine(tmp_path / "aside.jsonl", "cloud", max_bytes=1, max_files=1, on_removal=lost.extend)
    for position in (0, 250):
        quarantine.add([RejectedRecord(record(position, readings=250), "no")], NOW_MS)
    assert [(each.position, each.readings) for each in lost] == [(0, 250)]


def test_a_line_that_was_edited_is_no_loss(tmp_path: Path) -> None:
    lost: list[Record] = []
    path = tmp_path / "aside.jsonl"
    for changes in ({"position": -1}, {"readings": 0}, {"lane": 10**9}, {"sequence": None}, {}):
        impossible = record(7, readings=2)._replace(**changes)
        Quarantine(path, "cloud").add([RejectedRecord(impossible, "no")], NOW_MS)
    fill(Quarantine(path, "cloud", max_bytes=1, max_files=1, on_removal=lost.extend), 1)
    assert [(each.position, each.readings) for each in lost] == [(7, 2)]


def test_a_loss_that_cannot_be_recorded_leaves_the_file_and_takes_no_more(tmp_path: Path) -> None:
    def refuse(_records: Sequence[Record]) -> None:
        raise StorageError("No space left on device")

    path = tmp_path / "aside.jsonl"
    fill(Quarantine(path, "cloud", max_bytes=1_000, max_files=8), 20)
    before = positions_in(tmp_path)
    with pytest.raises(StorageError, match="No space left"):
        fill(Quarantine(path, "cloud", max_bytes=1_000, max_files=2, on_removal=refuse), 1)
    assert positions_in(tmp_path) == before


def test_a_disk_that_refuses_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    quarantine = Quarantine(in_the_way / "aside.jsonl", "cloud")
    with pytest.raises(StorageError, match=r"aside\.jsonl: "):
        quarantine.add([RejectedRecord(record(0), "no")], NOW_MS)


def test_a_failed_write_leaves_no_half_line_before_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quarantine = Quarantine(tmp_path / "aside.jsonl", "cloud")
    fill(quarantine, 1)

    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(StorageError, match="Input/output"):
            quarantine.add([RejectedRecord(record(1), "no")], NOW_MS)
    quarantine.add([RejectedRecord(record(1), "no")], NOW_MS)
    assert positions_in(tmp_path) == [0, 1]


def test_a_line_that_a_crash_cut_short_is_ended(tmp_path: Path) -> None:
    path = tmp_path / "aside.jsonl"
    path.write_text('{"quarantined_at')
    fill(Quarantine(path, "cloud"), 1)
    torn, whole = path.read_text().splitlines()
    assert torn == '{"quarantined_at'
    assert json.loads(whole)["position"] == 0
