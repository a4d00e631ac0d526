"""`headgate testbed` as its operator meets it."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE_S
from tests.support.processes import ended, processes_that_name

TESTBED = [sys.executable, "-m", "agent", "testbed"]

SMALL = """
title = "small"
seconds = {seconds}
[collectors.c]
[agents.a]
collector = "c"
disk_megabytes = 16
[devices.meter]
agent = "a"
[expect]
at_least = {at_least}
"""


def write(folder: Path, *, seconds: float, at_least: int) -> Path:
    path = folder / "small.toml"
    path.write_text(SMALL.format(seconds=seconds, at_least=at_least))
    return path


@pytest.mark.slow
def test_a_failure_keeps_the_evidence_and_tells_how_to_repeat_it(tmp_path: Path) -> None:
    scenario = write(tmp_path, seconds=0.5, at_least=3)
    scenario.write_text(scenario.read_text() + 'archives = "damaged"\n')
    command = [*TESTBED, "run", str(scenario), "--folder", str(tmp_path), "--seed", "9"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "small: FAILED" in done.stdout
    assert "no archive was damaged" in done.stdout
    assert f"seed 9; run it again: headgate testbed run {scenario} --seed 9" in done.stdout
    [evidence] = re.findall(r"logs and data: (\S+)", done.stdout)
    assert {"headgate.toml", "agent.log", "witness.jsonl", "status.json"} <= {
        p.name for p in Path(evidence, "agents", "a").iterdir()
    }
    assert Path(evidence, "devices", "meter.produced").read_text().startswith("1\n2\n")
    assert list(Path(evidence, "collectors", "c", "landing").glob("*.hga"))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_by_a_signal_it_leaves_no_process_and_no_mount(tmp_path: Path, number: signal.Signals) -> None:
    scenario = write(tmp_path, seconds=600, at_least=1)
    scenario.write_text(
        scenario.read_text() + '[[faults]]\nkind = "kill"\ntarget = "agents.a"\nat_s = 0.5\nfor_s = 0.1\n'
    )
    command = [*TESTBED, "run", str(scenario), "--folder", str(tmp_path)]
    with ended(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)) as process:
        assert process.stderr is not None
        assert "kill: agents.a" in process.stderr.readline()
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == 130
    assert processes_that_name(tmp_path) == []
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()


def test_a_wrong_file_is_reported_in_full_before_anything_starts(tmp_path: Path) -> None:
    scenario = write(tmp_path, seconds=-1, at_least=-1)
    done = subprocess.run([*TESTBED, "run", str(scenario)], capture_output=True, text=True, check=False)
    assert done.returncode == 78
    assert "2 problems" in done.stderr
    assert "seconds: -1.0 is not between" in done.stderr
