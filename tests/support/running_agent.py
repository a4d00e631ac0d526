"""A real agent in a process of its own, and what can be said of the messages it published."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from protocol.iomessage import ChainVerifier, IoMessage
from protocol.iomessage.content import decode_content
from protocol.streamr.stream_message import StreamMessage, parse_stream_message
from protocol.streamr.stream_message.signing import Verdict, Verifier
from tests.support.patience import PATIENCE_S
from tests.support.processes import ended

__all__ = ["Agent", "Chain", "assert_whole", "by_chain", "readings_of", "wait_until"]


CONFIGURATION = """
[device]
name = "bench"
data_directory = "data"
[journal]
max_megabytes = 16
segment_kilobytes = 256
commit_interval_s = {commit_interval_s}
positions_interval_s = 0.2
[drivers.boiler]
driver = "simulated"
rate_hz = {rate_hz}
signals = [{{ quantity = "temperature", kind = "walk", unit = "Cel" }}, {{ quantity = "valve", kind = "switch" }}]
[[streams]]
stream = "{{address}}/plant"
quantity = "temperature"
[[streams]]
stream = "{{address}}/plant/json"
content = "json"
priority = 2
[publishers.out]
kind = "file"
path = "out.jsonl"
[status]
every_s = 0.1
"""


@dataclass(frozen=True, slots=True)
class Agent:
    """The folder of one device, whichever process runs it."""

    folder: Path

    @classmethod
    def make(cls, folder: Path, *, rate_hz: float = 200, commit_interval_s: float = 0.02, extra: str = "") -> "Agent":
        folder.mkdir(parents=True, exist_ok=True)
        agent = cls(folder)
        text = CONFIGURATION.format(rate_hz=rate_hz, commit_interval_s=commit_interval_s) + extra
        agent.config.write_text(text)
        subprocess.run(agent.command("keys", "init", "--keys", str(agent.key_file)), check=True, capture_output=True)
        return agent

    @property
    def config(self) -> Path:
        return self.folder / "headgate.toml"

    @property
    def key_file(self) -> Path:
        return self.folder / "data" / "keys" / "device.keys"

    @property
    def output(self) -> Path:
        return self.folder / "out.jsonl"

    def command(self, *arguments: str) -> Sequence[str]:
        return [sys.executable, "-m", "agent", *arguments]

    @contextmanager
    def start(self, *arguments: str, **environment: str) -> "Iterator[subprocess.Popen[bytes]]":
        """It does not outlive the block, however that ends."""
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                self.command("run", "--config", str(self.config), *arguments),
                stderr=log,
                stdout=subprocess.DEVNULL,
                env={**os.environ, **environment},
            )
        with ended(process):
            yield process

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def lines(self) -> list[bytes]:
        """Whole lines of the output; a torn one was ended by the next process and is sent again."""
        if not self.output.exists():
            return []
        return [line for line in self.output.read_bytes().split(b"\n")[:-1] if line.endswith(b"]")]

    def messages(self) -> list[StreamMessage]:
        """In the order of their first arrival, each once."""
        seen: dict[bytes, None] = dict.fromkeys(self.lines())
        return [parse_stream_message(line) for line in seen]


def wait_until(is_true: Callable[[], object], what: str) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < until_s, f"waited in vain until {what}"
        time.sleep(0.01)


def readings_of(*messages: StreamMessage) -> list[IoMessage]:
    """The readings and events in the messages, alone or in packs, in their order."""
    return [io for message in messages for io in decode_content(message.content)]


Chain = tuple[str, int, str]


def by_chain(messages: Sequence[StreamMessage]) -> dict[Chain, list[StreamMessage]]:
    chains: dict[Chain, list[StreamMessage]] = {}
    for message in messages:
        stream_id, partition, _, _, _, chain_id = message.message_id
        chains.setdefault((stream_id, partition, chain_id), []).append(message)
    return chains


def assert_whole(messages: Sequence[StreamMessage]) -> None:
    """Signatures are valid; each chain begins at its beginning, is in order and has no hole."""
    verifier = Verifier()
    for chain, members in by_chain(messages).items():
        previous = None
        for index, message in enumerate(members):
            assert verifier.verify(message) is Verdict.VERIFIED
            assert message.prev_msg_ref == previous, f"{chain}: a hole or a wrong order at {index}"
            previous = message.message_id.ref
        links = ChainVerifier()
        for position, io in enumerate(readings_of(*members)):
            assert io.chain_position == position
            assert links.check(io) is None
