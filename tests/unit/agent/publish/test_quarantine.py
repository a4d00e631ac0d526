import base64
import json
import logging
from pathlib import Path

import pytest

from agent.publish.quarantine import Quarantine, SetAside
from tests.unit.agent.publish.records import NOW_MS, record


def test_an_entry_says_what_it_is_and_why(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "aside.jsonl"
    Quarantine(path, "cloud").add([SetAside(record(7, lane=2, payload=b'["text"]'), "no\nthanks")], NOW_MS)
    assert json.loads(path.read_text()) == {
        "set_aside_at_ms": NOW_MS,
        "publisher": "cloud",
        "reason": "no\nthanks",
        "lane": 2,
        "position": 7,
        "chain": "chain",
        "timestamp_ms": NOW_MS + 7,
        "sequence": 0,
        "message": '["text"]',
    }


def test_bytes_that_are_no_text_are_kept_too(tmp_path: Path) -> None:
    path = tmp_path / "aside.jsonl"
    Quarantine(path, "cloud").add([SetAside(record(0, payload=b"\xff"), "x" * 5_000)], NOW_MS)
    told = json.loads(path.read_text())
    assert base64.b64decode(told["message_base64"]) == b"\xff"
    assert len(told["reason"]) == 1_000


def test_a_full_file_makes_room_and_the_one_before_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "aside.jsonl"
    quarantine = Quarantine(path, "cloud", max_bytes=1_000)
    for number in range(20):
        quarantine.add([SetAside(record(number), "no")], NOW_MS)
    kept = sorted(tmp_path.iterdir())
    assert [each.name for each in kept] == ["aside.jsonl", "aside.jsonl.1"]
    assert sum(each.stat().st_size for each in kept) <= 2 * 1_200


def test_a_disk_that_refuses_is_told_once_and_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    quarantine = Quarantine(in_the_way / "aside.jsonl", "cloud")
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            quarantine.add([SetAside(record(0), "no")], NOW_MS)
    assert len(caplog.records) == 1
