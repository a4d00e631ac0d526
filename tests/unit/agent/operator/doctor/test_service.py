import copy
import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.config.configuration import Config, load_config
from agent.operator.doctor.finding import Severity
from agent.operator.doctor.service import (
    ServiceFacts,
    UnitFacts,
    gather_service,
    gather_unit,
    judge_service,
    judge_unit,
)
from agent.operator.unit_drop_in import compose_drop_in
from tests.support.statuses import log

STATUS: dict[str, Any] = {
    "version": 1,
    "written_at_ms": 0,
    "pid": 1,
    "device": {"name": "bench", "address": "0x1"},
    "is_making_progress": True,
    "storage_problem": "",
    "refused_readings": 0,
    "unrouted_readings": 0,
    "devices": {"boiler": {"state": "up", "reason": ""}},
    "links": {"node": {"is_up": True, "problem": "", "readings_quarantined": 0}},
    "archives": None,
}
RUNNING = UnitFacts(is_installed=True, state="active", result="success")


def _facts(**changes: Any) -> ServiceFacts:
    return ServiceFacts(status={**copy.deepcopy(STATUS), **changes}, age_s=1.0, is_alive=True)


@pytest.mark.parametrize(
    ("facts", "severity", "word"),
    [
        (_facts(), Severity.OK, "links are up"),
        (ServiceFacts(problem="the agent has never run here"), Severity.WARNING, "never"),
        (replace(_facts(), is_alive=False), Severity.ERROR, "is not running"),
        (replace(_facts(), age_s=600.0), Severity.ERROR, "10.0 min old"),
        (_facts(is_making_progress=False), Severity.ERROR, "no readings reach the disk"),
        (_facts(storage_problem="No space left"), Severity.ERROR, "No space left"),
        (_facts(refused_readings=2), Severity.WARNING, "2 readings were dropped"),
        (_facts(unrouted_readings=2), Severity.WARNING, "2 readings were dropped"),
        (_facts(devices={"b": {"state": "down", "reason": "no cable"}}), Severity.WARNING, "no cable"),
        (
            _facts(links={"n": {"is_up": False, "problem": "refused", "readings_quarantined": 0}}),
            Severity.WARNING,
            "is down",
        ),
        (
            _facts(links={"n": {"is_up": True, "problem": "", "readings_quarantined": 4}}),
            Severity.WARNING,
            "4 readings",
        ),
        (
            _facts(links={"n": {"is_up": True, "problem": "", "readings_quarantined": 0, "blocked": "disk full"}}),
            Severity.ERROR,
            "blocked: disk full",
        ),
        (_facts(archives={"problem": "", "ship_problem": "no route"}), Severity.WARNING, "no route"),
        (_facts(links=None), Severity.WARNING, "another version"),
    ],
)
def test_a_running_agent_is_judged(facts: ServiceFacts, severity: Severity, word: str) -> None:
    (finding,) = judge_service(facts, has_unit=True)
    assert finding.severity is severity
    assert word in finding.text


def test_the_device_log_is_shown_and_judged() -> None:
    running, shown = judge_service(_facts(archives={"log": log()}), has_unit=True)
    assert [running.severity, shown.severity] == [Severity.OK, Severity.OK]
    assert "device log abababab…: 3 archives, the collector holds 1" in shown.text
    _, lacking = judge_service(_facts(archives={"log": log(problem="the collector lacks 2")}), has_unit=True)
    assert (lacking.severity, lacking.text) == (Severity.ERROR, "device log: the collector lacks 2")
    _, old = judge_service(_facts(archives={"log": log(checkpoint_at_ms=-900_001)}), has_unit=True)
    assert (old.severity, "no checkpoint was accepted" in old.text) == (Severity.WARNING, True)
    continued = log(reason="the journal is a new one", continues="cd" * 16)
    _, begun = judge_service(_facts(archives={"log": continued}), has_unit=True)
    assert begun.severity is Severity.WARNING
    assert begun.text == "device log: the log cdcdcdcd… is continued by a new one: the journal is a new one"


@pytest.mark.parametrize(
    ("facts", "severity", "word"),
    [
        (UnitFacts(), Severity.OK, "no systemd unit"),
        (RUNNING, Severity.OK, "active"),
        (replace(RUNNING, state="failed", result="exit-code", exit_status=78), Severity.ERROR, "exit 78"),
        (replace(RUNNING, restarts=3), Severity.WARNING, "3 times"),
        (replace(RUNNING, is_drop_in_current=False), Severity.ERROR, "ports or paths"),
        (replace(RUNNING, drop_in_problem="/home/pi is hidden"), Severity.ERROR, "/home/pi"),
    ],
)
def test_the_unit_is_judged(facts: UnitFacts, severity: Severity, word: str) -> None:
    (finding,) = judge_unit(facts)
    assert finding.severity is severity
    assert word in finding.text


def test_who_has_no_unit_is_not_sent_to_systemctl() -> None:
    (finding,) = judge_service(ServiceFacts(problem="the agent has never run here"), has_unit=False)
    assert "headgate run" in finding.advice


def _config(folder: Path, port: str = "") -> Config:
    driver = f'[drivers.s]\ndriver = "nmea"\nport = "{port}"\n' if port else ""
    status = '[status]\nfile = "status.json"\n'
    (folder / "headgate.toml").write_text(f'[device]\nname = "bench"\n{status}{driver}')
    return load_config(folder / "headgate.toml")


def test_the_status_file_is_believed_only_as_far_as_it_can_be_read(tmp_path: Path) -> None:
    config = _config(tmp_path)
    assert gather_service(config).problem == "the agent has never run here"
    config.status_file.write_text("[]")
    assert "cannot read the status file" in gather_service(config).problem
    written = {**STATUS, "pid": os.getpid(), "written_at_ms": time.time_ns() // 1_000_000}
    config.status_file.write_text(json.dumps(written))
    facts = gather_service(config)
    assert facts.is_alive
    assert facts.age_s < 60


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One that says what stands in `answer`."""
    program = tmp_path / "bin" / "systemctl"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ncat {tmp_path}/answer\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return tmp_path / "answer"


def test_what_systemd_says_of_the_unit_is_read(tmp_path: Path, systemctl: Path) -> None:
    (tmp_path / "etc").mkdir()
    config, drop_in = _config(tmp_path / "etc"), tmp_path / "headgate.conf"
    config = replace(config, status=replace(config.status, file=None))
    systemctl.write_text("LoadState=not-found\n")
    assert gather_unit(config, drop_in) == UnitFacts()
    systemctl.write_text("LoadState=loaded\nActiveState=active\nResult=watchdog\nExecMainStatus=6\nNRestarts=2\n")
    facts = gather_unit(config, drop_in)
    assert (facts.state, facts.result, facts.exit_status, facts.restarts) == ("active", "watchdog", 6, 2)
    assert facts.is_drop_in_current, "nothing is needed beyond the unit"


def test_a_drop_in_that_does_not_fit_the_configuration_any_more_is_found(tmp_path: Path, systemctl: Path) -> None:
    systemctl.write_text("LoadState=loaded\nActiveState=active\n")
    (tmp_path / "etc").mkdir()
    config, drop_in = _config(tmp_path / "etc", "/dev/ttyUSB0"), tmp_path / "headgate.conf"
    config = replace(config, status=replace(config.status, file=None))
    assert not gather_unit(config, drop_in).is_drop_in_current
    drop_in.write_text("# another comment\n" + compose_drop_in(config))
    assert gather_unit(config, drop_in).is_drop_in_current


def test_a_configuration_that_was_changed_and_not_loaded_is_found(tmp_path: Path) -> None:
    path = tmp_path / "headgate.toml"
    path.write_text('[device]\nname = "bench"\ndata_directory = "."\n')
    config = load_config(path)
    config.status_file.write_text(json.dumps({**STATUS, "configuration_sha256": config.sha256.hex()}))
    assert gather_service(config).is_configuration_current
    path.write_text(path.read_text() + "# changed\n")
    assert not gather_service(load_config(path)).is_configuration_current
    (finding,) = judge_service(replace(_facts(), is_configuration_current=False), has_unit=True)
    assert finding.severity is Severity.WARNING
    assert "earlier version of the configuration" in finding.text
    assert "systemctl reload" in finding.advice
