import dataclasses

import pytest

from agent.journal.stats import RATE_WINDOW_S, JournalStats, RateMeter

STATS = JournalStats(
    lanes={},
    cursors={},
    pending_losses=0,
    records=10,
    readings=10,
    commits=5,
    payload_bytes=1000,
    written_bytes=1200,
    shed_readings=0,
    damaged_readings=0,
    torn_tails=0,
    lost_states=0,
    bytes_on_disk=0,
    max_bytes=0,
    free_bytes=864_000,
    commits_per_s=1,
    written_bytes_per_s=10,
    card_endurance_bytes=2200,
)


def test_costs_and_forecasts_follow_from_the_counts() -> None:
    assert STATS.written_per_payload_byte == 1.2
    assert STATS.full_in_s == 86_400
    assert STATS.card_life_s == 100


def test_a_journal_without_writes_has_no_forecast() -> None:
    idle = dataclasses.replace(STATS, written_bytes_per_s=0, payload_bytes=0)
    assert (idle.written_per_payload_byte, idle.full_in_s, idle.card_life_s) == (None, None, None)


def test_a_steady_rate_is_measured() -> None:
    meter = RateMeter()
    meter.per_s(0)
    for second in range(1, 60):
        meter.add(7)
        assert meter.per_s(second * 1000) == pytest.approx(7)


def test_an_old_rate_fades_within_the_window() -> None:
    meter = RateMeter(per_s=100)
    meter.per_s(0)
    assert meter.per_s(int(5 * RATE_WINDOW_S * 1000)) < 1


def test_a_clock_that_goes_back_does_no_harm() -> None:
    meter = RateMeter()
    meter.per_s(1_000_000)
    meter.add(10)
    assert meter.per_s(0) == 0
    assert meter.per_s(2000) == 5


def test_a_busy_first_second_does_not_rule_the_next_minutes() -> None:
    meter = RateMeter()
    meter.per_s(0)
    meter.add(100)
    for second in range(1, 61):
        meter.add(10)
        meter.per_s(second * 1000)
    assert meter.per_s(60_000) == pytest.approx(10, rel=0.2)
