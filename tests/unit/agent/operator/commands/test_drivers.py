import json
import tomllib
from dataclasses import fields

import pytest

from agent.cli import main
from agent.errors import ExitCode
from drivers.registry import DRIVERS, build_driver, schema_of


def test_every_driver_is_listed_with_what_it_reads(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drivers"]) == ExitCode.OK
    printed = capsys.readouterr().out
    assert [line.split()[0] for line in printed.splitlines() if line[0] not in " '"] == list(DRIVERS)
    assert "Modbus RTU over a serial port" in printed
    assert main(["drivers", "--json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out).keys() == DRIVERS.keys()


@pytest.mark.parametrize("name", DRIVERS)
def test_a_driver_shows_all_its_settings_and_a_sample_that_works(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drivers", name, "--json"]) == ExitCode.OK
    shown = json.loads(capsys.readouterr().out)
    names = [each["name"] for each in shown["settings"]]
    assert {each.name for each in fields(schema_of(name))} <= set(names)
    assert main(["drivers", name]) == ExitCode.OK
    text = capsys.readouterr().out
    assert all(f"  {each} " in text for each in names)
    assert text.endswith(shown["sample"] + "\n")
    assert main(["drivers", name, "--sample"]) == ExitCode.OK
    for table_name, table in tomllib.loads(capsys.readouterr().out)["drivers"].items():
        build_driver(table_name, table)


def test_tables_within_are_explained_by_their_dotted_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drivers", "modbus"]) == ExitCode.OK
    printed = capsys.readouterr().out
    assert "  registers.address " in printed
    assert "default 9600" in printed


@pytest.mark.parametrize("name", sorted(DRIVERS))
def test_defaults_are_written_as_in_a_configuration(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drivers", name, "--json"]) == ExitCode.OK
    for each in json.loads(capsys.readouterr().out)["settings"]:
        assert "(" not in each["default"], each
    main(["drivers", "system"])
    assert 'default ["/"]' in capsys.readouterr().out


def test_a_driver_that_does_not_exist_is_an_error_with_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drivers", "modbuss"]) == ExitCode.BAD_CONFIG
    assert "did you mean modbus?" in capsys.readouterr().err
