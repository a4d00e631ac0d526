"""What Prometheus is reported, as its own parser and its own checker read it."""

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from agent.service.page.metrics import METRICS, metrics_text
from tests.effort import effort
from tests.support.statuses import sensor, status

MANUAL = Path(__file__).parents[5] / "docs" / "operations.md"
Sample = tuple[str, tuple[tuple[str, str], ...]]


def parsed(text: bytes) -> dict[Sample, float]:
    families = text_string_to_metric_families(text.decode())
    return {
        (each.name, tuple(sorted(each.labels.items()))): each.value for family in families for each in family.samples
    }


def with_sensors(*sensors: dict[str, object]) -> dict[str, object]:
    devices = status()["devices"]
    devices["boiler"]["sensors"] = list(sensors)
    return status(devices=devices)


def test_the_parser_of_prometheus_reads_every_value() -> None:
    samples = parsed(metrics_text(status()))
    node = (("link", "node"),)
    assert samples["headgate_agent_readings_committed_total", ()] == 12
    assert samples["headgate_agent_messages_committed_total", ()] == 3
    assert samples["headgate_agent_link_readings_acknowledged_total", (("link", "out"),)] == 12
    assert samples["headgate_agent_link_messages_acknowledged_total", (("link", "out"),)] == 3
    assert samples["headgate_agent_link_up", node] == 0
    assert samples["headgate_agent_pending_readings", (("cursor", "node"),)] == 5
    assert samples["headgate_agent_clock_max_error_seconds", ()] == 0.25
    names = (("device", "boiler"), ("quantity", "temperature"), ("sensor", "boiler"), ("unit", "Cel"))
    assert samples["headgate_agent_sensor_value", names] == 21.5
    assert samples["headgate_agent_sensor_reading_time_seconds", names] == 9.0
    assert samples["headgate_agent_driver_value", (("device", "boiler"), ("name", "damaged_frames"))] == 3
    assert samples["process_resident_memory_bytes", ()] > 1_000_000


def test_what_is_not_known_is_left_out() -> None:
    names = {name for name, _ in parsed(metrics_text(status(archives=None)))}
    assert "headgate_agent_card_life_seconds" not in names
    assert not any("archives" in name for name in names)


def test_texts_and_numbers_beyond_measure_have_no_value() -> None:
    reported = parsed(metrics_text(with_sensors(sensor(value="eco"), sensor(value=10**400), sensor(value=False))))
    values = [value for (name, _), value in reported.items() if name == "headgate_agent_sensor_value"]
    assert values == [0.0]


@settings(max_examples=effort(test=15, soak=2_000))
@given(name=st.text(min_size=1, max_size=40), value=st.floats(allow_nan=False, allow_infinity=False))
def test_no_name_breaks_the_format(name: str, value: float) -> None:
    samples = parsed(metrics_text(with_sensors(sensor(name, value))))
    found = [
        (dict(labels)["quantity"], each)
        for (metric, labels), each in samples.items()
        if metric == "headgate_agent_sensor_value"
    ]
    assert found == [(name, value)]


def test_names_follow_the_conventions() -> None:
    for metric in METRICS:
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        assert metric.help.endswith("."), metric.name
    assert len({metric.name for metric in METRICS}) == len(METRICS)


def test_every_metric_stands_in_the_manual() -> None:
    documented = set(re.findall(r"^\| `(\w+)`", MANUAL.read_text(encoding="utf-8"), re.MULTILINE))
    assert {metric.name for metric in METRICS} <= documented


@pytest.mark.needs("promtool", "prometheus")
def test_the_checker_of_prometheus_finds_no_problem() -> None:
    hostile = with_sensors(sensor('quo"te\\back\nslash', 1.5), sensor("größe", 2))
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=metrics_text(hostile), capture_output=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")
