import json
import threading
from pathlib import Path

import pytest

from agent.cli import main
from agent.operator.doctor.examination import Check, run_checks
from agent.operator.doctor.finding import Finding, Severity, good


def _init(folder: Path) -> str:
    path = str(folder / "headgate.toml")
    assert main(["init", "--config", path, "--data", str(folder / "data"), "--name", "b", "--non-interactive"]) == 0
    return path


def test_a_check_that_breaks_or_hangs_is_a_finding_and_the_rest_go_on() -> None:
    released = threading.Event()

    def hang() -> list[Finding]:
        released.wait()
        return []

    def fail() -> list[Finding]:
        raise RuntimeError("boom")

    checks = [Check("slow", hang), Check("bad", fail), Check("fine", lambda: [good("fine", "well")])]
    slow, bad, fine = run_checks(checks, deadline_s=0.05)
    released.set()
    assert (slow.severity, slow.area) == (Severity.WARNING, "slow")
    assert (bad.severity, "boom" in bad.text) == (Severity.ERROR, True)
    assert fine.severity is Severity.OK


def test_a_new_device_has_no_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _init(tmp_path)
    capsys.readouterr()
    assert main(["doctor", "--config", path, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["errors"] == 0
    areas = {finding["area"] for finding in answer["findings"]}
    assert areas >= {"configuration", "clock", "machine", "disk", "journal", "keys", "link", "service"}


def test_a_destination_that_does_not_answer_is_an_error_with_advice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _init(tmp_path)
    with Path(path).open("a") as file:
        file.write('[publishers.node]\nkind = "websocket"\nurl = "ws://127.0.0.1:1"\n')
    assert main(["doctor", "--config", path]) == 1
    printed = capsys.readouterr().out
    assert "ERROR    link: publishers.node: 127.0.0.1:1: connection" in printed
    assert "→ check the cable" in printed


def test_without_a_configuration_it_says_what_can_be_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--config", str(tmp_path / "none.toml")]) == 1
    printed = capsys.readouterr().out
    assert "ERROR    configuration" in printed
    assert "clock" in printed


def test_every_mistake_of_a_configuration_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _init(tmp_path)
    with Path(path).open("a") as file:
        file.write("[jurnal]\n[publishers.x]\n")
    assert main(["doctor", "--config", path]) == 1
    printed = capsys.readouterr().out
    assert "did you mean journal?" in printed
    assert "publishers.x.kind" in printed


def test_an_unusable_collector_key_is_reported_once_with_the_command_that_prints_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _init(tmp_path)
    (tmp_path / "short").write_text("00")
    with Path(path).open("a") as file:
        file.write('[archive]\n[ship]\nurl = "http://127.0.0.1:1"\ncollector_key = "short"\n')
    assert main(["doctor", "--config", path]) == 1
    printed = capsys.readouterr().out
    assert printed.count("ship.collector_key: ") == 1
    assert "not 2; the collector's operator can print it: headgate collector keys show" in printed
