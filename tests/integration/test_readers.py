"""Streams that an agent makes on a node: its readers may subscribe to them, and no other address."""

import signal
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import quote

import pytest

from agent.keys import Secret, load_keys
from protocol.ethereum.signer import Signer
from tests.support.commands import node_arguments, running
from tests.support.patience import PATIENCE_S
from tests.support.running_agent import Agent, wait_until
from tests.support.small_client import SmallClient

pytestmark = pytest.mark.slow

READER, UNKNOWN = Signer(b"\x22" * 32), Signer(b"\x33" * 32)


@pytest.mark.parametrize("kind", ["websocket", "http"])
def test_the_readers_of_a_stream_that_the_agent_makes_can_subscribe_to_it(tmp_path: Path, kind: str) -> None:
    with running(*node_arguments(tmp_path / "node")) as node:
        address = node.wait_for(r"node listens; address=(\S+)")
        agent = make_agent(tmp_path / "agent", kind, address)
        device = Signer(load_keys(agent.key_file, lambda: Secret(b"")).identity.reveal()).address
        with agent.start() as process:
            wait_until(lambda: may_subscribe(address, f"{device}/shared", READER.address), "a permission of the reader")
            wait_until(lambda: may_subscribe(address, f"{device}/own", device), "the other stream")
            assert not may_subscribe(address, f"{device}/shared", UNKNOWN.address)
            assert not may_subscribe(address, f"{device}/own", READER.address)
            client = SmallClient(address, READER)
            client.subscribe(f"{device}/shared")
            assert len(client.read(3)) == 3
            client.close()
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0


def may_subscribe(address: str, stream_id: str, user: str) -> bool:
    url = f"http://{address}/api/v1/streams/{quote(stream_id, safe='')}/subscriber/{user}"
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S):
            return True
    except urllib.error.HTTPError:
        return False


def make_agent(folder: Path, kind: str, address: str) -> Agent:
    publisher = f'\n[publishers.node]\nkind = "{kind}"\nurl = "http://{address}"\n'
    agent = Agent.make(folder, rate_hz=20, extra=publisher)
    rules = f"""
[[streams]]
stream = "{{address}}/shared"
quantity = "temperature"
readers = ["{READER.address}"]

[[streams]]
stream = "{{address}}/own"

"""
    agent.config.write_text(agent.config.read_text().replace("[[streams]]", f"{rules}[[streams]]", 1))
    return agent
