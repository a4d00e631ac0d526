import os
from dataclasses import replace
from pathlib import Path

import pytest

from agent.config import load_config
from agent.doctor.finding import Severity
from agent.doctor.ports import PortFacts, gather_ports, judge_port

THERE = PortFacts(driver="scales", wanted="/dev/ttyUSB0", device="/dev/ttyUSB0")


@pytest.mark.parametrize(
    ("facts", "severity", "word"),
    [
        (replace(THERE, device=None), Severity.ERROR, "absent"),
        (replace(THERE, may_open=False), Severity.ERROR, "may not be opened"),
        (replace(THERE, holders=("ModemManager (7)",)), Severity.WARNING, "held by ModemManager"),
        (THERE, Severity.OK, "is there"),
    ],
)
def test_a_port_is_judged(facts: PortFacts, severity: Severity, word: str) -> None:
    (finding,) = judge_port(facts)
    assert finding.severity is severity
    assert word in finding.text


def test_the_group_that_may_open_ports_is_named() -> None:
    (finding,) = judge_port(replace(THERE, may_open=False))
    assert "dialout" in finding.advice


def test_who_holds_a_port_is_found_and_we_ourselves_do_not_count(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    port = os.ttyname(theirs)
    (tmp_path / "headgate.toml").write_text(
        '[device]\nname = "bench"\n[drivers.s]\ndriver = "serial_line"\nformat = "raw"\nmime_type = "text/plain"\n'
        f'port = "{port}"\n'
    )
    config = load_config(tmp_path / "headgate.toml")
    (held,) = gather_ports(config, own_pids=())
    (free,) = gather_ports(config, own_pids={os.getpid()})
    assert any(f"({os.getpid()})" in holder for holder in held.holders)
    assert free == PortFacts(driver="s", wanted=port, device=port)
    os.close(ours)
    os.close(theirs)
    (gone,) = gather_ports(config, own_pids=())
    assert gone.device is None


def test_a_pattern_means_every_port_that_fits(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "proc").mkdir()
    (tmp_path / "headgate.toml").write_text(
        '[device]\nname = "bench"\n[drivers.m]\ndriver = "firmware"\nport = "/dev/ttyACM*"\ndevice_id = "0a"\n'
    )
    config = load_config(tmp_path / "headgate.toml")
    assert [facts.device for facts in gather_ports(config, (), tmp_path)] == [None]
    (tmp_path / "dev" / "ttyACM0").touch()
    (tmp_path / "dev" / "ttyACM3").touch()
    assert [facts.device for facts in gather_ports(config, (), tmp_path)] == ["/dev/ttyACM0", "/dev/ttyACM3"]
