"""The table of drivers, and what each folder must hold."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from drivers import DRIVERS, ConfigError, build_driver

ROOM = Path(__file__).parents[3] / "drivers"
every_driver = pytest.mark.parametrize("kind", DRIVERS)


def table_of(text: str) -> tuple[str, dict[str, Any]]:
    ((name, table),) = tomllib.loads(text)["drivers"].items()
    return name, table


@every_driver
def test_the_sample_builds(kind: str) -> None:
    name, table = table_of((ROOM / kind / "sample.toml").read_text())
    driver = build_driver(name, table)
    assert (driver.name, driver.KIND, table["driver"]) == (name, kind, kind)


@every_driver
def test_a_single_sign_in_the_sample_shows_an_optional_setting_at_its_default(kind: str) -> None:
    sample = (ROOM / kind / "sample.toml").read_text()
    uncommented = re.sub(r"^# ", "", sample, flags=re.MULTILINE)
    plain, full = (build_driver(*table_of(text)) for text in (sample, uncommented))
    assert full.settings == plain.settings  # type: ignore[attr-defined]  # every driver of ours has them


@every_driver
def test_the_readme_contains_the_sample_unchanged(kind: str) -> None:
    readme = (ROOM / kind / "README.md").read_text()
    assert f"```toml\n{(ROOM / kind / 'sample.toml').read_text()}```" in readme
    for heading in ("## Wiring", "## Settings", "## Readings", "## Known faults"):
        assert heading in readme


def test_every_folder_is_in_the_table() -> None:
    assert {folder.parent.name for folder in ROOM.glob("*/driver.py")} == DRIVERS.keys()


def test_a_driver_is_imported_on_use_only() -> None:
    program = "import drivers, sys; assert not {'paho', 'pymodbus', 'serial'} & {m.split('.')[0] for m in sys.modules}"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOM.parent)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({}, "drivers.x.driver: missing"),
        ({"driver": "modbsu"}, "drivers.x.driver: 'modbsu' is not a driver; did you mean modbus?"),
        ({"driver": "zzz"}, "there are example, firmware, modbus"),
        ({"driver": ["nmea"]}, "drivers.x.driver: missing"),
    ],
)
def test_a_driver_that_is_not_in_the_table_is_a_config_error(table: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build_driver("x", table)
    assert problem in str(caught.value)


@pytest.mark.parametrize("name", ["", "x" * 129])
def test_a_driver_has_a_name_that_a_sensor_can_have(name: str) -> None:
    with pytest.raises(ConfigError, match="a driver's name has 1 to 128 characters"):
        build_driver(name, {"driver": "system"})


@every_driver
def test_every_driver_takes_silence_s(kind: str) -> None:
    name, table = table_of((ROOM / kind / "sample.toml").read_text())
    driver = build_driver(name, {**table, "silence_s": 30.0})
    own = getattr(getattr(driver, "settings", None), "silence_s", None)
    assert 30.0 in (driver.silence_s, own)
    with pytest.raises(ConfigError, match=rf"drivers\.{name}\.silence_s: "):
        build_driver(name, {**table, "silence_s": -1})


def test_problems_of_the_common_settings_and_of_the_drivers_own_are_reported_together() -> None:
    with pytest.raises(ConfigError) as caught:
        build_driver("b", {"driver": "mqtt", "silence_s": "soon"})
    assert [problem.split(":")[0] for problem in caught.value.problems] == ["drivers.b.silence_s", "drivers.b.host"]
