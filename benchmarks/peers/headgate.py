"""Headgate: every reading is signed, hash-chained and durable before it is acknowledged; publications are packed."""

import base64
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
from protocol.iomessage import IoMessage
from protocol.streamr.stream_message import StreamMessage, parse_stream_message

CONFIGURATION = """\
[device]
name = "bench"
data_directory = "data"
[drivers.plant]
driver = "mqtt"
host = "127.0.0.1"
port = {source_port}
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
        found = ((message, _io_message(message)) for message in stream_messages(arrival))
        readings = [(message.message_id, io) for message, io in found if io.info_type == "value"]
        numbers = numbers_of([cbor2.loads(io.content_data or b"") for _, io in readings])
        return [(message_id, number) for (message_id, _), number in zip(readings, numbers, strict=True)]


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


def stream_messages(arrival: Arrival) -> Iterator[StreamMessage]:
    """The messages in a publication of Headgate; none for a publication of another forwarder."""
    if not arrival.topic.startswith("0x"):
        return
    elements = orjson.loads(arrival.payload)
    for each in elements if isinstance(elements[0], list) else [elements]:
        yield parse_stream_message(orjson.dumps(each))


def _io_message(message: StreamMessage) -> IoMessage:
    return IoMessage.from_bytes(base64.b64decode(orjson.loads(message.content)["ioMessage"]))


def _run(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "agent", *arguments], check=True, capture_output=True)
