"""`headgate rejected`: what no driver could read, as the operator sees it."""

import base64
import json
from pathlib import Path

import pytest

from agent.cli import main
from agent.events.rejected import FOLDER_NAME, RejectedStore
from drivers.rejects import Sample

CONFIGURATION = """
[device]
name = "bench"
data_directory = "data"
[drivers.boiler]
driver = "simulated"
signals = [{ quantity = "t", kind = "walk" }]
[[streams]]
stream = "bench"
[publishers.out]
kind = "file"
path = "out.jsonl"
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "headgate.toml"
    path.write_text(CONFIGURATION)
    store = RejectedStore(tmp_path / "data" / FOLDER_NAME)
    store.add("plant", [Sample(1_700_000_000_000, "boiler", "t is not a number", b'{"t":"19,4"}', 12)])
    store.add("cable", [Sample(1_700_000_001_000, "cable", "garbage", b"\x1b[2J\xff", 9000)])
    return path


def run(config: Path, *arguments: str) -> int:
    return main(["rejected", "--config", str(config), *arguments])


def test_it_lists_what_came_when_from_where_and_why(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(config) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.split(None, 3)[:3] == ["1", "2023-11-14", "22:13:20"]
    assert "plant  boiler  t is not a number" in first
    assert "19,4" in first
    assert "\x1b" not in second
    assert second.endswith("…")


def test_one_device_as_json(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(config, "plant", "--json") == 0
    (line,) = capsys.readouterr().out.splitlines()
    found = json.loads(line)
    assert (found["number"], found["sensor"], found["reason"]) == (1, "boiler", "t is not a number")
    assert base64.b64decode(found["raw"]) == b'{"t":"19,4"}'


def test_the_raw_bytes_of_one(config: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run(config, "--show", "2") == 0
    assert capfdbinary.readouterr().out == b"\x1b[2J\xff"
    assert run(config, "--show", "3") == 1
    assert b"there is no entry 3" in capfdbinary.readouterr().err


def test_nothing_rejected_is_said(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (config.parent / "data" / "rejected").rename(config.parent / "elsewhere")
    assert run(config) == 0
    assert capsys.readouterr().err == "no rejected input\n"


def test_a_device_that_is_not_configured_and_has_no_entry_is_an_error_with_those_there_are(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(config, "nosuch") == 1
    assert "no device is named 'nosuch'; configured devices: " in capsys.readouterr().err
