"""A hostile node against a real agent and a real subscriber: their keys sign no text but a login challenge."""

import http.server
import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from nacl.signing import SigningKey

from agent.keys import read_binding
from protocol.ethereum.login_challenge import challenge_text
from tests.support.patience import PATIENCE_S
from tests.support.running_agent import Agent, wait_until

pytestmark = pytest.mark.slow

ATTACKER_KEY = bytes(SigningKey(b"\x66" * 32).verify_key).hex()
PUBLISHER = """
[publishers.{kind}]
kind = "{kind}"
url = "{url}"
retry_first_s = 0.05
retry_max_s = 0.1
"""


def texts_worth_signing(address: str) -> list[str]:
    """What an attacker would gain by: a binding, messages, a claim, another's login, and what nearly is a challenge."""
    good = challenge_text(address, "A" * 30)
    return [
        "",
        f"Headgate device {address} signs its archives with the Ed25519 key {ATTACKER_KEY}.",
        f"headgate binding 1\n{address[2:]}{ATTACKER_KEY}",
        f"{address}/plant01700000000000{0}{address}chain{{}}",
        f"{good}01700000000000{0}{address}chain{{}}",
        f"headgate claim 3\n{address}",
        challenge_text("0x" + "1" * 40, "A" * 30),
        good + "A",
        good.lower(),
        "Sign in to my-other-service.example",
    ]


class HostileNode:
    """Asks for a signature of each text in turn, and notes every signature that it is sent."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.asked = 0
        self.signatures: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def challenge(self) -> str:
        with self._lock:
            text = self.texts[self.asked % len(self.texts)]
            self.asked += 1
            return text

    @contextmanager
    def serve(self) -> Iterator[str]:
        node = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:  # the name is http.server's
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if "/login/challenge/" in self.path:
                    answer = {"id": "1", "challenge": node.challenge(), "expires": "2100-01-01T00:00:00Z"}
                else:
                    node.signatures.append(json.loads(body or b"{}"))
                    answer = {"token": "a token", "expires": "2100-01-01T00:00:00Z"}
                sent = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

            def log_message(self, *_: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def address_of(agent: Agent) -> str:
    return "0x" + read_binding(agent.key_file).address.hex()


@pytest.mark.parametrize("kind", ["websocket", "http"])
def test_an_agent_signs_nothing_that_a_hostile_node_chooses(tmp_path: Path, kind: str) -> None:
    node = HostileNode()
    with node.serve() as url:
        agent = Agent.make(tmp_path, rate_hz=20, extra=PUBLISHER.format(kind=kind, url=url))
        node.texts = texts_worth_signing(address_of(agent))
        with agent.start():
            wait_until(lambda: node.asked > len(node.texts), "every text was asked for")
            wait_until(lambda: "asked to sign a text that is not a login challenge" in agent.log(), "it is logged")
            wait_until(lambda: len(agent.lines()) > 5, "the other publisher goes on")
    assert node.signatures == []


def test_an_agent_still_signs_the_challenge_of_a_node(tmp_path: Path) -> None:
    node = HostileNode()
    with node.serve() as url:
        agent = Agent.make(tmp_path, rate_hz=20, extra=PUBLISHER.format(kind="http", url=url))
        node.texts = [challenge_text(address_of(agent), "A" * 30)]
        with agent.start():
            wait_until(lambda: bool(node.signatures), "it logs in")


def test_a_subscriber_signs_nothing_that_a_hostile_node_chooses(tmp_path: Path) -> None:
    node = HostileNode()
    agent = Agent.make(tmp_path)
    with node.serve() as url:
        for text in texts_worth_signing(address_of(agent)):
            node.texts = [text]
            command = agent.command("subscribe", "some/stream", "--node", url, "--keys", str(agent.key_file))
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
            assert done.returncode != 0
            assert "asked to sign a text that is not a login challenge" in done.stderr
            assert "Traceback" not in done.stderr
    assert node.signatures == []
