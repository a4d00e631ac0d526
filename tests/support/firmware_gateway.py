"""A real agent with a microcontroller on one of its ports, and what its journal says of the device's readings."""

import asyncio
import json
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.operator.firmware_devices import LineSettings, open_directly
from protocol.link import CommandResult, Hello
from protocol.scalars import decode_scalar
from tests.support.patience import PATIENCE_S
from tests.support.running_agent import Agent, assert_whole, readings_of, wait_until

BAUDRATE = 115_200
CONFIGURATION = """
[device]
name = "bench"
data_directory = "data"
[journal]
max_megabytes = 16
segment_kilobytes = 256
commit_interval_s = 0.05
positions_interval_s = 0.2
[drivers.mcu]
driver = "firmware"
port = "{port}"
sensor = "{{sensor}}"
silence_s = 0.5
{extra}
[[streams]]
stream = "{{address}}/cycles"
sensor = "cycle"
priority = 2
[[streams]]
stream = "{{address}}/rest"
[publishers.out]
kind = "file"
path = "out.jsonl"
[status]
every_s = 0.1
"""


@dataclass(frozen=True)
class Gateway:
    agent: Agent
    port: Path

    @classmethod
    def make(cls, folder: Path, port: Path, extra: str = "") -> "Gateway":
        agent = Agent(folder)
        folder.mkdir()
        agent.config.write_text(CONFIGURATION.format(port=port, extra=extra))
        subprocess.run(agent.command("keys", "init", "--keys", str(agent.key_file)), check=True, capture_output=True)
        return cls(agent, port)

    def cycles(self) -> list[int]:
        """What the device counted, in the order in which it was stored."""
        return [value for name, value in self._values() if name == "cycle" and isinstance(value, int)]

    def wait_for_cycles(self, count: int) -> None:
        """Until so many more are published; what a new process publishes again does not count."""
        before = self._cycle_count()
        wait_until(lambda: self._cycle_count() >= before + count, f"{count} more cycles are published")

    def _cycle_count(self) -> int:
        return len(self.cycles())

    def wait_for_samples(self, count: int) -> None:
        """Until the link has delivered N more, committed or not."""
        before = self._samples()
        wait_until(lambda: self._samples() >= before + count, f"{count} more samples come over the link")

    def _samples(self) -> float:
        try:
            return self.counters()["samples"]
        except (FileNotFoundError, KeyError):  # no status yet, or one without a session
            return 0

    def wait_for_log(self, words: str, times: int = 1) -> None:
        wait_until(lambda: self.agent.log().count(words) >= times, f"the log says {words!r} {times} times")

    def assert_every_cycle_once(self, *, dropped: int = 0) -> None:
        """From 0 on without a double, and without a hole but those that the device itself had no room for."""
        cycles = self.cycles()
        assert cycles == sorted(set(cycles)), "in order, and none twice"
        assert cycles[0] == 0
        assert cycles[-1] + 1 - len(cycles) <= dropped, "what is missing, the device had to drop"
        self.assert_sensors_agree()

    def assert_sensors_agree(self) -> None:
        assert_whole(self.agent.messages())
        counts = Counter(name for name, _ in self._values())
        assert len(set(counts.values())) == 1, f"as many values of each sensor: {counts}"

    def counters(self) -> dict[str, float]:
        status: dict[str, Any] = json.loads((self.agent.folder / "data" / "status.json").read_text())
        counters: dict[str, float] = status["devices"]["mcu"]["counters"]
        return counters

    def _values(self) -> list[tuple[str, object]]:
        found = [message for message in self.agent.messages() if not message.message_id.stream_id.endswith("/events")]
        return [(io.tag or "", decode_scalar(io.content_data or b"")) for io in readings_of(*found)]


def command(port: Path, name: str, argument: int, key_file: Path | None = None) -> CommandResult:
    """Have the device do something, while no agent holds its port."""

    async def call() -> CommandResult:
        async with open_directly(str(port), LineSettings(baudrate=BAUDRATE, key_file=key_file)) as link:
            await link.opened()
            return await link.call(name, argument)

    return asyncio.run(call())


def hello_of(port: Path, key_file: Path | None = None) -> Hello:
    async def look() -> Hello:
        async with open_directly(str(port), LineSettings(baudrate=BAUDRATE, key_file=key_file)) as link:
            return await link.opened()

    return asyncio.run(look())


def run_agent(gateway: Gateway, scene: Callable[[], None]) -> None:
    """A scene with a running agent, which is then ended in order."""
    with gateway.agent.start() as process:
        scene()
        process.terminate()
        assert process.wait(PATIENCE_S) == 0


def run_and_kill_agent(gateway: Gateway, scene: Callable[[], None]) -> None:
    """A scene with a running agent, which is then killed with kill -9."""
    with gateway.agent.start():
        scene()
