"""The session, with a node that a test owns."""

import socket
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from agent.errors import LinkDown, Rejected
from agent.publish.node_rest import NodeRest, NodeSession, Reply, refusal_text
from agent.publish.node_url import NodeUrl
from protocol.ethereum.login_challenge import challenge_text
from protocol.ethereum.signer import Signer
from tests.support.wallets import personal_sign

SIGNER = Signer(b"\x05" * 32)


class FakeNode(NodeRest):
    """Answers with `replies` where it has any for a path, else as a good node does."""

    def __init__(self) -> None:
        super().__init__(NodeUrl.parse("http://node:1"), timeout_s=1, tls=None)
        self.replies: dict[str, Reply] = {}
        self.asked: list[tuple[str, Any]] = []
        self.expires: str | None = None
        self.challenge = challenge_text(SIGNER.address, "a" * 30)

    def post(self, path: str, body: bytes, headers: Mapping[str, str] | None = None) -> Reply:  # noqa: ARG002
        self.asked.append((path, orjson.loads(body) if body else None))
        if path in self.replies:
            return self.replies[path]
        logins = sum(asked == "/login/response" for asked, _ in self.asked)
        answer = {"id": "1", "challenge": self.challenge, "token": f"token {logins}", "expires": self.expires}
        return Reply(200, orjson.dumps(answer))


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


def test_a_challenge_is_signed_and_the_token_kept(node: FakeNode) -> None:
    session = NodeSession(node, SIGNER)
    assert [session.token(), session.token()] == ["token 1", "token 1"]
    (challenge, _), (response, answer) = node.asked
    assert challenge == f"/login/challenge/{SIGNER.address}"
    assert response == "/login/response"
    assert answer["signature"] == personal_sign(SIGNER, node.challenge)
    assert answer["address"] == SIGNER.address


def test_a_session_is_renewed_before_it_ends(node: FakeNode) -> None:
    clock = Clock()
    node.expires = (datetime.now(UTC) + timedelta(seconds=1_000)).isoformat()
    session = NodeSession(node, SIGNER, now_s=clock)
    session.token()
    clock.now_s = 700
    assert session.token() == "token 1"
    clock.now_s = 850
    assert session.token() == "token 2"


def test_a_clock_that_is_wrong_does_not_log_in_for_every_message(node: FakeNode) -> None:
    clock = Clock()
    node.expires = "2001-01-01T00:00:00Z"
    session = NodeSession(node, SIGNER, now_s=clock)
    session.token()
    clock.now_s = 59
    assert session.token() == "token 1"


def test_a_token_that_the_node_forgot_is_replaced(node: FakeNode) -> None:
    session = NodeSession(node, SIGNER)
    session.token()
    session.drop_token()
    assert session.token() == "token 2"


@pytest.mark.parametrize(("status", "error"), [(403, Rejected), (400, Rejected), (503, LinkDown), (429, LinkDown)])
def test_a_login_that_is_refused_says_so(node: FakeNode, status: int, error: type[Exception]) -> None:
    node.replies["/login/response"] = Reply(status, b'{"error":"not you"}')
    with pytest.raises(error, match=f"{status} not you"):
        NodeSession(node, SIGNER).token()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sign me",
        challenge_text(SIGNER.address, "a" * 30) + "a",
        challenge_text("0x" + "1" * 40, "a" * 30),
        f"stream01700000000000{SIGNER.address}chain{{}}",
    ],
)
def test_what_is_no_login_challenge_is_not_signed(node: FakeNode, text: str) -> None:
    node.challenge = text
    with pytest.raises(Rejected, match="is not a login challenge, and was refused"):
        NodeSession(node, SIGNER).token()
    assert [path for path, _ in node.asked] == [f"/login/challenge/{SIGNER.address}"]


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"token":5}'])
def test_what_is_no_node_is_no_session(node: FakeNode, body: bytes) -> None:
    node.replies["/login/response"] = Reply(200, body)
    with pytest.raises(LinkDown):
        NodeSession(node, SIGNER).token()


def test_a_stream_is_made_or_the_reason_given(node: FakeNode) -> None:
    session = NodeSession(node, SIGNER)
    assert session.create_stream("0xa/b", 3) == ""
    assert session.has_just_created("0xa/b")
    assert node.asked[-1] == ("/streams", {"id": "0xa/b", "name": "0xa/b", "partitions": 3})
    node.replies["/streams"] = Reply(403, b'{"error":"not yours"}')
    assert "not yours" in session.create_stream("0xb/b", 1)
    assert not session.has_just_created("0xb/b")


def test_readers_are_let_in_once_for_each_session(node: FakeNode) -> None:
    session = NodeSession(node, SIGNER)
    for _ in range(2):
        session.share_stream("0xa/b", ["0xc"])
    session.share_stream("0xa/d", [])

    assert [asked for asked in node.asked if "permissions" in asked[0]] == [
        ("/streams/0xa%2Fb/permissions", {"user": "0xc", "operation": operation})
        for operation in ("stream_get", "stream_subscribe")
    ]


def test_a_node_that_lets_no_readers_in_is_not_asked_again_and_one_that_is_away_is(
    node: FakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    session, path = NodeSession(node, SIGNER), "/streams/0xa%2Fb/permissions"
    node.replies[path] = Reply(503, b"")
    with pytest.raises(LinkDown):
        session.share_stream("0xa/b", ["0xc"])
    node.replies[path] = Reply(403, b'{"error":"not yours"}')
    for _ in range(2):
        session.share_stream("0xa/b", ["0xc"])

    assert len([asked for asked, _ in node.asked if asked == path]) == 2
    assert "cannot grant readers access on the node; stream=0xa/b" in caplog.text


def test_a_host_that_cannot_be_resolved_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(LinkDown, match=r"^http://node\.example:7070: cannot resolve node\.example$"):
        NodeRest(NodeUrl.parse("http://node.example:7070"), timeout_s=5, tls=None).post("/login/challenge", b"")


def test_a_refusal_is_one_bounded_line() -> None:
    assert refusal_text(Reply(500, b"a\nb" + b"x" * 10_000)).startswith("500 a b")
    assert len(refusal_text(Reply(500, b"x" * 10_000))) < 400
