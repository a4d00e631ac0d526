"""Runs of the ingest as processes of their own, and a small real cluster, to kill."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pyspark

from ingest.collector.keys import create_keys
from ingest.java import find_java_home
from testbed.processes import free_port
from tests.effort import effort
from tests.support.corpus_scenario import DECRYPTION_KEY, DEVICES, GROUP_KEYS
from tests.support.patience import PATIENCE_S
from tests.support.processes import ended
from tests.support.spark_session import JAVA_OPTIONS, OPTIONS

ROOT = Path(__file__).parents[2]
SPARK_HOME = Path(pyspark.__file__).parent
BATCH_ARCHIVES = effort(test=8, soak=3)  # each batch costs seconds of a processor
LONGEST_HALF_LIFE_S = 0.3  # for which what is left of a run may go on without the part that was killed
INCOMPLETE = 1  # exit code of a run that could not account for everything


def operator_files(folder: Path) -> list[str]:
    """The arguments that hand the corpus's keys and devices to a run."""
    keys = {stream: {name: key.key.hex() for name, key in known.items()} for stream, known in GROUP_KEYS.items()}
    (folder / "group-keys.json").touch(mode=0o600)
    (folder / "group-keys.json").write_text(json.dumps(keys))
    seeds = iter([bytes(32), bytes(DECRYPTION_KEY)])
    create_keys(folder / "keys", lambda _: next(seeds))
    devices = [argument for device in sorted(DEVICES) for argument in ("--device", device)]
    encryption = ["--decryption-key", str(folder / "keys" / "decryption.key")]
    return [*devices, "--group-keys", str(folder / "group-keys.json"), *encryption]


def run_arguments(folder: Path, *others: str) -> list[str]:
    spark = [argument for name, value in OPTIONS.items() for argument in ("--conf", f"{name}={value}")]
    places = ["--landing", str(folder / "landing"), "--tables", str(folder / "tables")]
    return [*places, "--batch-archives", str(BATCH_ARCHIVES), *spark, *others]


def start_run(arguments: list[str]) -> "AbstractContextManager[subprocess.Popen[str]]":
    """A run that is killed at the end of the block, if it has not ended."""
    return _running([sys.executable, "-m", "agent", "ingest", "run", *arguments])


@contextmanager
def _running(command: list[str]) -> "Iterator[subprocess.Popen[str]]":
    """In a session of its own, so that it can be killed with all processes that it started."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with ended(process):
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


WARM_UP = """
import sys
from ingest.session import open_session
from tests.support.spark_session import OPTIONS
open_session(None, OPTIONS)
print("warm", file=sys.stderr, flush=True)
sys.stdin.readline()
from agent.cli import main
sys.exit(main(["ingest", "run", *sys.argv[1:]]))
"""


def prepare_run(arguments: list[str]) -> "AbstractContextManager[subprocess.Popen[str]]":
    """A run whose Spark starts now, while another is being killed, and which reads archives after `begin`."""
    return _running([sys.executable, "-c", WARM_UP, *arguments])


def begin(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def environment() -> dict[str, str]:
    return {
        **os.environ,
        "JAVA_HOME": str(find_java_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
    }


def await_line(process: "subprocess.Popen[str]", text: str) -> str:
    """The first line of its stderr with this text; a failure if it ends before."""
    said = []
    assert process.stderr is not None
    for line in process.stderr:
        said.append(line)
        if text in line:
            return line
    raise AssertionError("".join(said[-40:]))


def finish(process: "subprocess.Popen[str]") -> str:
    """What it says until it ends. The corpus has losses that nothing explains, so it is not complete."""
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == INCOMPLETE, said[-3000:]
    assert "NOT COMPLETE (readings): " in said
    return said


def kill(process: "subprocess.Popen[str]", chance: random.Random) -> None:
    """All of its processes at once, as a power cut would, or one of them, as the system's memory killer would."""
    members = [each for each in children(process.pid) if each != process.pid]
    whole = chance.random() < 0.5 or not members
    if not whole:
        os.kill(chance.choice([process.pid, members[0]]), signal.SIGKILL)
        time.sleep(chance.random() * LONGEST_HALF_LIFE_S)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def children(group: int) -> list[int]:
    """The processes of a group, oldest first."""
    found = subprocess.run(["ps", "-o", "pid=", "-g", str(group)], capture_output=True, text=True, check=False)
    return sorted(int(line) for line in found.stdout.split())


def await_end_of_all(group: int) -> None:
    """Java ends a moment after the Python that started it."""
    deadline_s = time.monotonic() + PATIENCE_S
    while left := children(group):
        assert time.monotonic() < deadline_s, f"still there: {left}"
        time.sleep(0.2)


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[tuple[str, list["subprocess.Popen[bytes]"]]]:
    """A standalone master and its workers on loopback, from the pip-installed Spark: its address, and the workers."""
    url = f"spark://127.0.0.1:{free_port()}"
    running = [
        _daemon(folder, "master.Master", "--host", "127.0.0.1", "--port", url.rsplit(":")[-1], "--webui-port", "0")
    ]
    try:
        await_port(int(url.rsplit(":")[-1]))
        for number in range(workers):
            work = str(folder / f"worker-{number}")
            options = ["--cores", "1", "--memory", "1g", "--host", "127.0.0.1", "--webui-port", "0", "--work-dir", work]
            running.append(_daemon(folder, "worker.Worker", *options, url))
        yield url, running[1:]
    finally:
        for daemon in running:
            stop(daemon)


def _daemon(folder: Path, name: str, *arguments: str) -> "subprocess.Popen[bytes]":
    with (folder / f"{name}.log").open("ab") as log:
        return subprocess.Popen(
            [SPARK_HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *arguments],
            env={
                **environment(),
                "SPARK_DAEMON_MEMORY": "256m",
                "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS,
                "SPARK_NO_DAEMONIZE": "1",
            },
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def stop(daemon: "subprocess.Popen[bytes]") -> None:
    """With its executors."""
    if daemon.poll() is None:
        os.killpg(daemon.pid, signal.SIGKILL)
    daemon.wait()


def await_port(port: int) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError(f"nothing listens on port {port}")
