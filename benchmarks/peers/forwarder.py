"""A program under test that forwards readings: how it is installed, started and stopped."""

import os
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from benchmarks.peers.traffic import Arrival

STOP_TIMEOUT_S = 30


class Missing(Exception):
    """A program that cannot be measured, because it is not here and cannot be installed."""


def install(command: Sequence[str]) -> None:
    """Run an installer. Raises: Missing, with the end of its output."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise Missing(f"{error.filename} is not installed") from None
    if done.returncode:
        raise Missing(done.stderr.strip()[-300:])


class Forwarder(ABC):
    """One program between two brokers, in a folder of its own. It forwards topics below its `name`."""

    name: ClassVar[str]
    has_ids: ClassVar[bool] = False  # by which a consumer removes duplicates
    round_readings: ClassVar[int] = 40_000  # of one round of load: some seconds, whatever the last commit waits for

    def __init__(self, folder: Path, source_port: int, sink_port: int) -> None:
        folder.mkdir()
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None
        self.set_up(source_port, sink_port)

    @abstractmethod
    def set_up(self, source_port: int, sink_port: int) -> None:
        """Install it if it is missing, and write its configuration. Raises: Missing."""

    @abstractmethod
    def command(self) -> Sequence[str]: ...

    @abstractmethod
    def numbers_in(self, arrival: Arrival) -> list[int]:
        """The numbers of the readings in a message that it published, in order; [] for another message."""

    def identities_in(self, arrival: Arrival) -> list[tuple[object, int]]:
        """The same, each with the id by which a consumer removes duplicates; without ids, the number."""
        return [(number, number) for number in self.numbers_in(arrival)]

    def environment(self) -> dict[str, str]:
        return {}

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            environment = {**os.environ, **self.environment()}
            self.process = subprocess.Popen(
                self.command(), cwd=self.folder, stdout=log, stderr=log, env=environment, start_new_session=True
            )

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None


def numbers_of(values: Sequence[object]) -> list[int]:
    """The numbers of readings, from their values."""
    return [int(str(value)) - 10_000_000 for value in values]
