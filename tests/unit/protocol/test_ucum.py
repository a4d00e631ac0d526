"""Units by UCUM, judged by another implementation and by what the drivers say."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.config.review import USUAL_UNITS, _units_in
from drivers.mqtt import esphome, tasmota, zigbee2mqtt
from drivers.pms5003.driver import QUANTITIES
from drivers.sysfs import channels
from protocol.ucum import _PREFIXES, _SUGGESTIONS, MAX_UNIT_CHARACTERS, unit_problem
from tests.support.mutated_tables import documented_tables

JUDGED = json.loads((Path(__file__).parents[2] / "vectors" / "ucum" / "ucumvert-0.3.2.json").read_text())
PIECES = [
    "m",
    "s",
    "kW",
    "[ppm]",
    "10*",
    "10",
    "Cel",
    "(",
    ")",
    ".",
    "/",
    "{a}",
    "{",
    "}",
    "[",
    "]",
    "2",
    "-1",
    "+",
    "°",
    " ",
]


def test_the_other_implementation_agrees() -> None:
    assert (len(JUDGED["units"]), len(JUDGED["not_units"])) == (707, 260)
    assert [unit for unit in JUDGED["units"] if unit_problem(unit)] == []
    assert [unit for unit in JUDGED["not_units"] if not unit_problem(unit)] == []


def units_of_drivers() -> set[str]:
    by_name: list[dict[str, Any]] = [
        tasmota._UNITS, tasmota._PRESSURE_UNITS, zigbee2mqtt._UNITS_BY_ENDING, esphome._UNITS_BY_ENDING,
    ]  # fmt: skip
    chosen_by_size = {zigbee2mqtt._BY_SIZE_OF_VOLTAGE, zigbee2mqtt._BY_SIZE_OF_PRESSURE}
    found = {unit for table in by_name for unit in table.values()} - chosen_by_size
    found |= {unit for table in (channels._IIO, channels._HWMON) for _, unit, _ in table.values()}
    return found | {unit for _, unit in QUANTITIES}


def test_what_the_drivers_say_is_ucum() -> None:
    units = units_of_drivers()
    assert len(units) > 30
    assert [problem for unit in sorted(units) if (problem := unit_problem(unit))] == []


def test_what_the_documents_show_is_ucum() -> None:
    shown = [unit for text in documented_tables() for _, unit in _units_in(tomllib.loads(text), "")]
    assert len(shown) > 5
    assert [problem for unit in shown if (problem := unit_problem(unit))] == []


def test_usual_units_are_units() -> None:
    assert [unit for unit in USUAL_UNITS if unit_problem(unit)] == []


def test_no_unit_is_no_problem_and_unity_is_a_unit() -> None:
    assert [unit_problem(unit) for unit in ("", "1", "{count}", "10*6")] == ["", "", "", ""]


@pytest.mark.parametrize(
    ("unit", "advice"),
    [
        ("°C", "; did you mean Cel?"), ("kWh", "; did you mean kW.h?"), ("µg/m³", "; did you mean ug/m3?"),
        ("m/s²", "; did you mean m/s2?"), ("W/m^2", "; did you mean W/m2?"), ("rpm", "; did you mean /min?"),
        ("zzz", "there is no unit 'zzz'"), ("m//s", "'/s' is not allowed there"), ("(m", "it ends too early"),
        ("m" * 200, f"longer than {MAX_UNIT_CHARACTERS} characters"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_what_may_be_meant(unit: str, advice: str) -> None:
    assert unit_problem(unit).endswith(advice)
    assert " is not UCUM: " in unit_problem(unit)


def test_every_advice_leads_from_what_is_no_unit_to_a_unit() -> None:
    for written, meant in _SUGGESTIONS.items():
        assert unit_problem(written).endswith(f"; did you mean {meant}?")
        assert not unit_problem(meant)


@given(st.lists(st.sampled_from([*PIECES, *_PREFIXES]) | st.text(max_size=3), max_size=40).map("".join))
@example("(" * 100)
@example("/" + "m." * 60)
@example("[" * 120)
@example("[!" * 60)
@example("~" * 120 + "{")
def test_any_text_is_a_unit_or_has_one_problem_in_one_line(text: str) -> None:
    problem = unit_problem(text)
    assert isinstance(problem, str)
    assert problem.isprintable()
    assert len(problem) < 300
