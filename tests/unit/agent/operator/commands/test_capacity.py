import json
from pathlib import Path

import pytest

from agent.cli import main
from agent.journal import DirectoryDisk, Entry, Journal, JournalSettings
from agent.journal.inspection import inspect_journal
from agent.operator.commands.capacity import (
    LaneLoad,
    card_life_s,
    forecast,
    measure_lanes,
    needed_megabytes,
    plan_lane,
    span_s,
)
from tests.support.simulated_disk import SimulatedDisk

MIB = 1 << 20
SETTINGS = JournalSettings(max_bytes=4 * MIB, segment_bytes=256 * 1024, compression="none", cursors=("publisher",))


def _load(lane: int, bytes_per_s: float, live_bytes: int = 0) -> LaneLoad:
    return LaneLoad(lane=lane, live_bytes=live_bytes, readings_per_s=1.0, bytes_per_s=bytes_per_s)


def _entry(number: int) -> Entry:
    return Entry(chain="chain", timestamp_ms=number, sequence=0, payload=bytes(500))


def _write_seconds(journal: Journal, seconds: int, start_ms: int, lanes: dict[int, int]) -> int:
    """So many readings each second in each lane; how many seconds passed before the first was lost."""
    for second in range(seconds):
        now_ms = start_ms + second * 1000
        for lane, count in lanes.items():
            journal.append_many(lane, [_entry(second) for _ in range(count)])
        journal.commit(now_ms)
        if journal.stats(now_ms).shed_readings:
            return second
    return seconds


def test_what_is_forecast_from_a_real_journal_is_when_it_really_begins_to_lose() -> None:
    disk = SimulatedDisk()
    journal = Journal(disk, SETTINGS, new_journal_id=7, now_ms=0)
    lanes = {1: 10, 4: 30}
    _write_seconds(journal, 20, 0, lanes)
    measured = measure_lanes(inspect_journal(disk))
    outage = forecast(measured, SETTINGS)
    really_s = _write_seconds(journal, 10_000, 20_000, lanes)
    assert [load.lane for load in measured] == [1, 4]
    assert [round(load.readings_per_s) for load in measured] == pytest.approx([10, 30], rel=0.15)
    assert 0.7 * really_s <= (outage.holds_s[4] or 0) <= 1.05 * really_s, "rather too little than too much"


def test_what_is_said_to_be_large_enough_is() -> None:
    disk = SimulatedDisk()
    journal = Journal(disk, SETTINGS, new_journal_id=7, now_ms=0)
    _write_seconds(journal, 20, 0, {4: 40})
    measured = measure_lanes(inspect_journal(disk))
    needed = needed_megabytes(measured, 200, SETTINGS)
    settings = JournalSettings(
        max_bytes=needed * MIB, segment_bytes=256 * 1024, compression="none", cursors=("publisher",)
    )
    large = Journal(SimulatedDisk(), settings, new_journal_id=7, now_ms=0)
    assert _write_seconds(large, 200, 0, {4: 40}) == 200
    assert needed < 2 * 200 * 40 * 600 / MIB, "and not by being far too large"


def test_a_plan_before_compression_is_what_a_journal_without_compression_writes() -> None:
    planned = plan_lane(40, 500, SETTINGS)
    disk = SimulatedDisk()
    journal = Journal(disk, SETTINGS, new_journal_id=7, now_ms=0)
    _write_seconds(journal, 30, 0, {4: 40})
    (measured,) = measure_lanes(inspect_journal(disk))
    assert planned.bytes_per_s == pytest.approx(measured.bytes_per_s, rel=0.1)


def test_a_rare_message_costs_a_page_of_its_own() -> None:
    assert plan_lane(0.1, 500, SETTINGS).bytes_per_s == pytest.approx(0.1 * 4096)


def test_a_plan_counts_commits_by_records_where_many_come() -> None:
    plenty = plan_lane(10_000, 500, SETTINGS)
    assert plenty.bytes_per_s == pytest.approx(10_000 * 524, rel=0.05)


def test_the_more_important_lane_holds_longer_for_the_other_makes_way() -> None:
    outage = forecast([_load(4, 900), _load(0, 100)], SETTINGS)
    assert outage.holds_s[0] == pytest.approx(outage.usable_bytes / 100)
    assert outage.holds_s[4] == pytest.approx(outage.usable_bytes / 1000)


def test_where_reading_stops_all_lanes_stop_together() -> None:
    settings = JournalSettings(max_bytes=4 * MIB, segment_bytes=256 * 1024, when_full="stop_reading")
    assert len(set(forecast([_load(4, 900), _load(0, 100)], settings).holds_s.values())) == 1


def test_a_lane_to_which_nothing_comes_holds_for_ever_and_a_full_one_not_at_all() -> None:
    assert forecast([_load(0, 0.0)], SETTINGS).holds_s == {0: None}
    assert forecast([_load(0, 1.0, live_bytes=1 << 40)], SETTINGS).holds_s == {0: 0.0}


def test_the_card_lives_as_long_as_its_endurance_lasts() -> None:
    settings = JournalSettings(card_endurance_bytes=10_000_000)
    life_s = card_life_s([_load(4, 1000)], settings, written_bytes=4_000_000)
    assert life_s == pytest.approx(6_000_000 / (1000 + 819.2))
    assert card_life_s([_load(4, 1000)], SETTINGS) is None


def test_spans_are_read_as_people_write_them() -> None:
    assert [span_s(text) for text in ("45s", "90m", "1.5h", "3d", "10 min")] == [45, 5400, 5400, 259_200, 600]


@pytest.mark.parametrize("text", ["6", "h", "-1h", "0h", "1w", "1e3h"])
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(SystemExit):
        main(["capacity", "--rate", "1", f"--offline={text}"])


def test_the_command_plans_and_says_no_if_it_is_too_small(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_CONFIG", str(tmp_path / "none.toml"))
    assert main(["capacity", "--rate", "10", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["is_enough"]
    assert main(["capacity", "--rate", "1000", "--offline", "7d"]) == 1
    assert "TOO SMALL" in capsys.readouterr().out


def test_the_command_looks_into_a_journal_and_makes_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = Journal(DirectoryDisk(tmp_path / "journal"), SETTINGS, new_journal_id=7, now_ms=0)
    _write_seconds(journal, 20, 0, {4: 40})
    assert main(["capacity", "--journal", str(tmp_path / "journal"), "--offline", "10s", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["max_megabytes"] == 4
    assert answer["lanes"][0]["readings_per_s"] == pytest.approx(40, rel=0.1)
    journal.close(0)
    assert main(["capacity", "--journal", str(tmp_path / "nowhere")]) == 66
    assert not (tmp_path / "nowhere").exists()


def test_status_and_capacity_forecast_the_same_from_the_first_minute_on() -> None:
    disk = SimulatedDisk()
    settings = JournalSettings(max_bytes=64 * MIB, segment_bytes=256 * 1024, compression="none", cursors=("publisher",))
    journal = Journal(disk, settings, new_journal_id=7, now_ms=0)
    journal.stats(0)
    journal.append_many(4, [_entry(0) for _ in range(150)])  # what a start brings at once
    for second in range(1, 61):
        journal.append_many(4, [_entry(second) for _ in range(30)])
        journal.commit(second * 1000)
        journal.stats(second * 1000)
    status = journal.stats(60_000).full_in_s
    assert status == pytest.approx(forecast(measure_lanes(inspect_journal(disk)), settings).holds_s[4], rel=0.1)
