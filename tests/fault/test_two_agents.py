"""Two agents with one data directory: the second one is refused, also with a journal of its own, and spoils nothing.

Journals in different directories have locks of their own. The clock's ceiling, the token log and the group keys are in
the data directory, and belong to one process.
"""

import random
import signal
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.effort import seeds
from tests.support.patience import PATIENCE_S
from tests.support.processes import ended
from tests.support.running_agent import Agent, assert_whole, wait_until

pytestmark = pytest.mark.slow


def _start(agent: Agent, name: str) -> "subprocess.Popen[str]":
    """Start an agent on the same data directory, with a journal and an output of its own."""
    text = agent.config.read_text().replace("[journal]", f'[journal]\ndirectory = "journal-{name}"')
    config = agent.folder / f"{name}.toml"
    config.write_text(text.replace('"out.jsonl"', f'"{name}.jsonl"'))
    return subprocess.Popen(agent.command("run", "--config", str(config)), stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("seed", seeds(test=2, soak=50))
def test_one_of_two_agents_with_one_data_directory_and_two_journals_runs(tmp_path: Path, seed: int) -> None:
    chance, agent = random.Random(seed), Agent.make(tmp_path)
    with ExitStack() as stack:
        started: dict[str, subprocess.Popen[str]] = {}
        for name in ("a", "b"):
            started[name] = stack.enter_context(ended(_start(agent, name)))
            if chance.random() < 0.5:
                wait_until((tmp_path / f"{name}.jsonl").exists, "it publishes")
        wait_until(
            lambda: any(each.poll() is not None for each in started.values()) or _both_publish(tmp_path), "ended"
        )
        refused = [name for name, process in started.items() if process.poll() is not None]
        assert len(refused) == 1, "both run"
        (running,) = started.keys() - set(refused)
        _, log = started[refused[0]].communicate(timeout=PATIENCE_S)
        assert started[refused[0]].returncode != 0
        assert "is using this data directory; stop it" in log
        assert "Traceback" not in log
        assert not (tmp_path / f"{refused[0]}.jsonl").exists()
        wait_until((tmp_path / f"{running}.jsonl").exists, "the other one publishes")
        started[running].send_signal(signal.SIGTERM)
        started[running].communicate(timeout=PATIENCE_S)
        assert started[running].returncode == 0
    (tmp_path / f"{running}.jsonl").rename(agent.output)
    assert_whole(agent.messages())


def _both_publish(folder: Path) -> bool:
    return all((folder / f"{name}.jsonl").exists() for name in ("a", "b"))
