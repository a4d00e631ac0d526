"""Commands that read the status file show it or name the file and what to do, whatever the file holds."""

import contextlib
import copy
import io
import json
import os
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from agent.cli import main
from agent.version import VERSION
from tests.effort import seeds
from tests.support.statuses import status

ODD_VALUES = [None, True, -1, 0, 10**30, float("inf"), "", "text", [], [1], {}, {"a": 1}]
COMMANDS = (["status"], ["status", "--json"], ["top", "--once"], ["tap", "--last", "1"])


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    path = tmp_path / "headgate.toml"
    assert main(["init", "--config", str(path), "--data", str(tmp_path / "data"), "--non-interactive"]) == 0
    return path


def spoil(value: Any, random: Random) -> None:
    """Change or remove one member, at any depth."""
    while True:
        key = random.choice(list(value) if isinstance(value, dict) else range(len(value)))
        if isinstance(value[key], dict | list) and value[key] and random.random() < 0.8:
            value = value[key]
            continue
        if random.random() < 0.5:
            del value[key]
        else:
            value[key] = copy.deepcopy(random.choice(ODD_VALUES))
        return


@pytest.mark.parametrize("seed", seeds(test=2, soak=200))
def test_no_status_ends_in_a_traceback(configuration: Path, seed: int) -> None:
    random, file = Random(seed), configuration.parent / "data" / "status.json"
    for _ in range(30):
        document = copy.deepcopy(status(headgate=VERSION, pid=os.getpid(), written_at_ms=time.time_ns() // 1_000_000))
        spoil(document, random)
        file.write_text(json.dumps(document))
        for command in COMMANDS:
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = main([*command, "--config", str(configuration)])
            assert code in (0, 1, 66, 78), (command, document, err.getvalue())
            assert "Traceback" not in err.getvalue()


def test_a_status_without_fields_is_said_to_be_of_another_version(
    configuration: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (configuration.parent / "data" / "status.json").write_text('{"version": 1}')
    assert main(["status", "--config", str(configuration)]) == 78
    assert (
        "status.json: written by another version of Headgate, or damaged; restart the agent" in capsys.readouterr().err
    )
