"""Headgate: every reading is signed, hash-chained and durable before it is acknowledged."""

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import cbor2
import orjson

from benchmarks.peers.broker import free_port, is_listening
from benchmarks.peers.forwarder import Forwarder, numbers_of
from benchmarks.peers.traffic import Arrival
from protocol.iomessage.content import decode_content
from protocol.streamr.stream_message import StreamMessage, parse_stream_message

CONFIGURATION = """\
[device]
name = "{name}"
data_directory = "data"
[drivers.plant]
driver = "mqtt"
host = "127.0.0.1"
port = {source_port}
client_id = "{name}"
[[drivers.plant.subscriptions]]
topic = "{name}/{{sensor}}/data"
format = "json"
[drivers.plant.subscriptions.quantities.value]
unit = "Cel"
[publishers.broker]
kind = "mqtt"
host = "127.0.0.1"
port = {sink_port}
messages_per_publication = 250
retry_max_s = 0.9
"""
WITHOUT_PACKS = """\
[[streams]]
stream = "{address}/{device}/{driver}"
max_readings_per_message = 1
"""
NODE_PUBLISHER = """\
[publishers.node]
kind = "websocket"
url = "ws://127.0.0.1:{port}"
"""
OPEN_NODE = """\
[limits]
max_requests_per_s = 1_000_000
"""


class Headgate(Forwarder):
    name = "headgate"
    has_ids = True

    def set_up(self, source_port: int, sink_port: int) -> None:
        text = CONFIGURATION.format(name=self.name, source_port=source_port, sink_port=sink_port)
        (self.folder / "headgate.toml").write_text(text)
        _run("keys", "init", "--keys", str(self.folder / "data" / "keys" / "device.keys"))

    def command(self) -> Sequence[str]:
        """The command of the systemd unit: `python -m` would load `runpy`, too."""
        return [str(Path(sys.executable).with_name("headgate")), "run", "--config", str(self.folder / "headgate.toml")]

    def environment(self) -> dict[str, str]:
        """Use compiled modules, as an installed package does."""
        return {"PYTHONDONTWRITEBYTECODE": ""}

    def numbers_in(self, arrival: Arrival) -> list[int]:
        return [number for _, number in self.identities_in(arrival)]

    def identities_in(self, arrival: Arrival) -> list[tuple[object, int]]:
        found = [
            ((message.message_id, index), cbor2.loads(each.content_data or b""))
            for message in stream_messages(arrival, self.name)
            for index, each in enumerate(decode_content(message.content))
            if each.info_type == "value"
        ]
        return list(zip([identity for identity, _ in found], numbers_of([value for _, value in found]), strict=True))


class HeadgateWithoutPacks(Headgate):
    """Headgate that signs each reading by itself."""

    name = "headgate-no-packs"

    def set_up(self, source_port: int, sink_port: int) -> None:
        super().set_up(source_port, sink_port)
        with (self.folder / "headgate.toml").open("a") as file:
            file.write(WITHOUT_PACKS)


class HeadgateOverBoth(Headgate):
    """Headgate with a node as second destination, so that both transports are used."""

    name = "headgate-both"

    def set_up(self, source_port: int, sink_port: int) -> None:
        super().set_up(source_port, sink_port)
        self._node_port = free_port()
        with (self.folder / "headgate.toml").open("a") as file:
            file.write(NODE_PUBLISHER.format(port=self._node_port))
        (self.folder / "node.toml").write_text(OPEN_NODE)

    @contextmanager
    def node(self) -> Iterator[None]:
        """Run the node for the block."""
        listen, data = f"127.0.0.1:{self._node_port}", str(self.folder / "node")
        command = [sys.executable, "-m", "agent", "node", "run", "--listen", listen, "--data", data]
        with (self.folder / "node.log").open("wb") as log:
            process = subprocess.Popen([*command, "--config", str(self.folder / "node.toml")], stderr=log)
        try:
            while not is_listening(self._node_port):
                if process.poll() is not None:
                    raise RuntimeError(f"the node does not start: {(self.folder / 'node.log').read_text()[-300:]}")
                time.sleep(0.02)
            yield
        finally:
            process.terminate()
            process.wait()


def stream_messages(arrival: Arrival, device: str) -> Iterator[StreamMessage]:
    """The messages in a publication of this device; none for a publication of another forwarder."""
    if not is_signed(arrival, device):
        return
    elements = orjson.loads(arrival.payload)
    for each in elements if isinstance(elements[0], list) else [elements]:
        yield parse_stream_message(orjson.dumps(each))


def is_signed(arrival: Arrival, device: str) -> bool:
    """Whether this device has published it: its topic is the id of a stream."""
    return arrival.topic.startswith("0x") and arrival.topic.split("/")[1] == device


def _run(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "agent", *arguments], check=True, capture_output=True)
