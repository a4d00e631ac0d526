"""Stock JavaScript clients read packs of an agent, plain and encrypted, live and stored, as docs/publish.md says."""

import json
import re
import signal
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.keys import Secret, load_keys
from agent.keys.group_keys import read_group_keys_of
from protocol.ethereum.signer import Signer
from protocol.iomessage.content import decode_content
from protocol.scalars import decode_scalar
from protocol.streamr.group_keys.encryption import decrypt_message
from protocol.streamr.group_keys.group_key import GroupKey
from tests.support.commands import node_arguments, running
from tests.support.patience import PATIENCE_S
from tests.support.running_agent import Agent, wait_until
from tests.support.small_client import SmallClient
from tests.support.stock_clients import StockClient, with_releases_of

pytestmark = [pytest.mark.slow, pytest.mark.needs("node", "nodejs"), pytest.mark.needs("npm", "npm")]

DOCUMENT = Path(__file__).parents[2] / "docs" / "publish.md"
BOB, CAROL = (Signer(bytes([digits]) * 32) for digits in (0x22, 0x33))  # as the scenarios of client5 know them
MESSAGES = 3
STREAMS = ("binary", "json", "encrypted")
KEYS = ("id", "tag", "infotype", "infoformat", "timestamp", "contentdata", "value")

EXPORTS = """
exports.readings = (content) => readings(content).map((reading) => ({ ...reading, value: numberIn(reading) }))
"""

CONFIGURATION = f"""
[device]
name = "test"
data_directory = "data"
[journal]
commit_interval_s = 0.2
[drivers.boiler]
driver = "simulated"
rate_hz = 50
signals = [
  {{{{ quantity = "temperature", kind = "walk", unit = "Cel" }}}},
  {{{{ quantity = "pressure", kind = "walk", unit = "Pa" }}}},
  {{{{ quantity = "level", kind = "walk", unit = "m" }}}},
]
[[streams]]
stream = "{{{{address}}}}/binary"
quantity = "temperature"
[[streams]]
stream = "{{{{address}}}}/json"
quantity = "pressure"
content = "json"
[[streams]]
stream = "{{{{address}}}}/encrypted"
encryption = "aes"
readers = ["{BOB.address}", "{CAROL.address}"]
[publishers.node]
kind = "websocket"
url = "http://{{node_address}}"
[publishers.out]
kind = "file"
path = "out.jsonl"
"""


class Publishing:
    """An agent that publishes packs to a node, and the decoder of the document for its readers."""

    def __init__(self, folder: Path, node_address: str) -> None:
        self.node_address = node_address
        self.agent = Agent.make(folder / "agent")
        self.agent.config.write_text(CONFIGURATION.format(node_address=node_address))
        self.device = Signer(load_keys(self.agent.key_file, lambda: Secret(b"")).identity.reveal())
        self.decoder = folder / "decoder.js"
        self.decoder.write_text(snippet("javascript") + EXPORTS)

    def make_public_streams(self) -> None:
        """Every client may have their messages; only `readers` get the keys of the encrypted one."""
        client = SmallClient(self.node_address, self.device)
        for name in STREAMS:
            client.make_public_stream(self.stream(name))
        client.close()

    def stream(self, name: str) -> str:
        return f"{self.device.address}/{name}"

    def group_key(self) -> GroupKey:
        """The only key of the encrypted stream."""
        file = self.agent.folder / "group-keys.json"
        options = ["--keys", str(self.agent.key_file), "--out", str(file)]
        subprocess.run(self.agent.command("keys", "export-group-keys", *options), check=True, capture_output=True)
        (key,) = read_group_keys_of(self.stream("encrypted"), file).values()
        return key

    def contents(self, name: str) -> list[str]:
        """The contents of all messages of a stream, as the agent wrote them to a file."""
        found = [each for each in self.agent.messages() if each.message_id.stream_id == self.stream(name)]
        if name != "encrypted":
            return [each.content for each in found]
        key = self.group_key()
        return [decrypt_message(each, key).content for each in found]

    def run(self, client: StockClient, name: str, home: Path, *more: str) -> dict[str, Any]:
        return client.run("packs", self.node_address, home, self.stream(name), str(MESSAGES), str(self.decoder), *more)


@pytest.fixture(scope="module")
def publishing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Publishing]:
    folder = tmp_path_factory.mktemp("packs")
    with running(*node_arguments(folder / "node")) as node:
        publishing = Publishing(folder, node.wait_for(r"node listens; address=(\S+)"))
        publishing.make_public_streams()
        with publishing.agent.start() as process:
            wait_until(lambda: len(publishing.agent.lines()) > len(STREAMS) * MESSAGES, "packs are published")
            yield publishing
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize("name", STREAMS)
@with_releases_of("client5")
def test_client_5_reads_packs_live_and_stored(
    client: StockClient, name: str, publishing: Publishing, tmp_path: Path
) -> None:
    assert_read_as_published(publishing.run(client, name, tmp_path), publishing.contents(name))


@pytest.mark.parametrize("name", STREAMS)
@with_releases_of("client3")
def test_client_3_reads_packs_live_and_stored(
    client: StockClient, name: str, publishing: Publishing, tmp_path: Path
) -> None:
    key = [publishing.device.address, publishing.group_key().key.hex()] if name == "encrypted" else []
    assert_read_as_published(publishing.run(client, name, tmp_path, *key), publishing.contents(name))


@pytest.mark.parametrize("name", ["binary", "json"])
@with_releases_of("client1")
def test_client_1_reads_packs_live_and_stored(
    client: StockClient, name: str, publishing: Publishing, tmp_path: Path
) -> None:
    assert_read_as_published(publishing.run(client, name, tmp_path), publishing.contents(name))


@pytest.mark.parametrize("name", STREAMS)
def test_the_python_of_the_document_reads_packs(name: str, publishing: Publishing) -> None:
    document: dict[str, Any] = {}
    exec(snippet("python"), document)
    contents = publishing.contents(name)
    for content in contents:
        found = document["readings"](json.loads(content))
        assert shown({**each, "value": document["number_in"](each)} for each in found) == published(content)


def assert_read_as_published(result: dict[str, Any], contents: list[str]) -> None:
    """Live and stored messages are in the order in which they were published, with all their readings."""
    expected = [published(content) for content in contents]
    for messages in (result["live"], result["history"]):
        found = [shown(message) for message in messages]
        assert len(found) == MESSAGES
        assert max(map(len, found)) > 1, "there are packs"
        first = expected.index(found[0])
        assert expected[first : first + MESSAGES] == found


def published(content: str) -> list[dict[str, Any]]:
    found = decode_content(content)
    return shown({**json.loads(io.to_json()), "value": decode_scalar(io.content_data or b"")} for io in found)


def shown(readings: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: reading[key] for key in KEYS} for reading in readings]


def snippet(language: str) -> str:
    """The only block of the document in this language."""
    (block,) = re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    return str(block)
