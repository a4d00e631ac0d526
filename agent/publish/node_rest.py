"""HTTP client of a node: requests over one persistent connection, and login by a signed challenge.

Everything here blocks, and is called in a thread.
"""

import contextlib
import http.client
import logging
import ssl
import threading
import time
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from itertools import product
from typing import Any, NamedTuple
from urllib.parse import quote

import orjson

from agent.errors import LinkDown, Rejected
from agent.publish.node_url import API_PREFIX, NodeUrl
from protocol.ethereum.signer import Signer
from protocol.shown_text import printable_start

READ_OPERATIONS = ("stream_get", "stream_subscribe")
MAX_REMEMBERED_STREAMS = 10_000
MAX_REPLY_BYTES = 1024 * 1024
MAX_REFUSAL_CHARACTERS = 300
MAX_SHOWN_CHALLENGE_CHARACTERS = 120
LONGEST_SESSION_USE_S = 3_600.0  # then a new one is opened, whatever the node says of its end
SHORTEST_SESSION_USE_S = 60.0  # however soon it ends by a clock that may be wrong
USED_SHARE_OF_SESSION = 0.8


log = logging.getLogger(__name__)


def no_readers(_stream_id: str) -> Collection[str]:
    """No address, for publishers without readers."""
    return ()


class Reply(NamedTuple):
    status: int
    body: bytes

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300

    @property
    def may_pass(self) -> bool:
        """Whether the same request may well be answered otherwise another time."""
        return self.status >= 500 or self.status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)


class NodeRest:
    """One connection to a node's REST interface, kept open between requests. One thread at a time."""

    def __init__(self, url: NodeUrl, *, timeout_s: float, tls: ssl.SSLContext | None) -> None:
        self.url = url
        if url.is_secure:
            self._connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                url.host, url.port, timeout=timeout_s, context=tls
            )
        else:
            self._connection = http.client.HTTPConnection(url.host, url.port, timeout=timeout_s)

    def post(self, path: str, body: bytes, headers: Mapping[str, str] | None = None) -> Reply:
        """Raises: LinkDown, also where a connection that was kept had been closed and a new one fails too.

        So a request may arrive twice; whoever posts what must not be done twice makes it harmless.
        """
        was_kept = self._connection.sock is not None
        try:
            return self._exchange(path, body, headers or {})
        except (OSError, http.client.HTTPException) as problem:
            self.close()
            if not was_kept or isinstance(problem, TimeoutError):
                raise self._down(problem) from problem
        try:
            return self._exchange(path, body, headers or {})
        except (OSError, http.client.HTTPException) as problem:
            self.close()
            raise self._down(problem) from problem

    def close(self) -> None:
        self._connection.close()

    def _exchange(self, path: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        everything = {"Content-Type": "application/json", **headers}
        self._connection.request("POST", API_PREFIX + path, body, everything)
        response = self._connection.getresponse()
        reply = Reply(response.status, response.read(MAX_REPLY_BYTES))
        if not response.isclosed():
            self.close()  # more than anybody needs to say
        return reply

    def _down(self, problem: Exception) -> LinkDown:
        return LinkDown(f"{self.url}: {problem or type(problem).__name__}")


class NodeSession:
    """Who we are to a node: a token, got by signing a challenge, and got anew before it ends. Any thread may ask."""

    def __init__(self, rest: NodeRest, signer: Signer, *, now_s: Callable[[], float] = time.monotonic) -> None:
        self._rest = rest
        self._signer = signer
        self._now_s = now_s
        self._lock = threading.RLock()
        self._token: str | None = None
        self._made_stream = ""
        self._shared_streams: set[str] = set()
        self._renew_at_s = 0.0

    @property
    def is_fresh(self) -> bool:
        """Whether `token` would answer without asking the node."""
        return self._token is not None and self._now_s() < self._renew_at_s

    def token(self) -> str:
        """Raises: LinkDown, Rejected."""
        with self._lock:
            if self._token is None or not self.is_fresh:
                with contextlib.closing(self._rest):  # it will not be needed again for long
                    self._token, self._renew_at_s = self._log_in()
            return self._token

    def forget(self) -> None:
        """The node does not know the token any more."""
        self._token = None

    def make_stream(self, stream_id: str, partitions: int) -> str:
        """Create the stream if it is missing. Returns the node's reason if it was not created. Raises: LinkDown."""
        stream = {"id": stream_id, "name": stream_id, "partitions": partitions}
        with self._lock:
            try:
                with contextlib.closing(self._rest):
                    self._ask("/streams", stream, {"Authorization": f"Bearer {self.token()}"})
            except Rejected as problem:
                return str(problem)
            self._made_stream = stream_id
        return ""

    def share_stream(self, stream_id: str, readers: Collection[str]) -> None:
        """Let readers subscribe to a stream of this device, once for each session. Raises: LinkDown.

        A node that refuses it, because the stream is another's, is not asked again.
        """
        with self._lock:
            if not readers or stream_id in self._shared_streams:
                return
            path = f"/streams/{quote(stream_id, safe='')}/permissions"
            try:
                with contextlib.closing(self._rest):
                    for reader, operation in product(sorted(readers), READ_OPERATIONS):
                        permission = {"user": reader, "operation": operation}
                        self._ask(path, permission, {"Authorization": f"Bearer {self.token()}"})
            except Rejected as problem:
                log.warning("cannot grant readers access on the node; stream=%s problem=%s", stream_id, problem)
            if len(self._shared_streams) >= MAX_REMEMBERED_STREAMS:
                self._shared_streams.clear()
            self._shared_streams.add(stream_id)

    def has_just_made(self, stream_id: str) -> bool:
        """Whether this is the last stream that was made. While one is being made, this waits: until the node has given
        us our rights on it, it refuses messages that come meanwhile."""
        with self._lock:
            return self._made_stream == stream_id

    def _log_in(self) -> tuple[str, float]:
        challenge = self._ask(f"/login/challenge/{quote(self._signer.address)}", None)
        signature = self._sign(str(challenge.get("challenge", "")))
        answer = {"challenge": challenge, "signature": signature, "address": self._signer.address}
        session = self._ask("/login/response", answer)
        token = session.get("token")
        if not isinstance(token, str) or not token:
            raise LinkDown(f"{self._rest.url}: no session token in the answer; is it a node?")
        return token, self._now_s() + _use_s(session.get("expires"))

    def _sign(self, challenge: str) -> str:
        """Raises: Rejected for a text that Streamr nodes do not send: its signature could be misused elsewhere."""
        try:
            return self._signer.sign_challenge(challenge)
        except ValueError:
            shown = printable_start(challenge, MAX_SHOWN_CHALLENGE_CHARACTERS)
            raise Rejected(
                f"{self._rest.url}: asked to sign a text that is not a login challenge, and was refused; it may not be"
                f" your node, or another machine answers in its place; check the URL and use https; it sent {shown!r}"
            ) from None

    def _ask(self, path: str, question: object, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        reply = self._rest.post(path, b"" if question is None else orjson.dumps(question), headers)
        if reply.may_pass:
            raise LinkDown(f"{self._rest.url}{API_PREFIX}{path}: {refusal_text(reply)}")
        if not reply.is_good:
            raise Rejected(f"{self._rest.url}{API_PREFIX}{path}: {refusal_text(reply)}")
        try:
            answer = orjson.loads(reply.body)
        except orjson.JSONDecodeError:
            answer = None
        if not isinstance(answer, dict):
            raise LinkDown(f"{self._rest.url}{API_PREFIX}{path}: the answer is not JSON; is it a node?")
        return answer


def refusal_text(reply: Reply) -> str:
    """The status and the reason in a reply, as one bounded line."""
    try:
        told = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        told = reply.body.decode(errors="replace")
    if isinstance(told, dict):
        told = told.get("error") or told.get("message") or told.get("code") or ""
    return f"{reply.status} {' '.join(str(told).split())[:MAX_REFUSAL_CHARACTERS]}".strip()


def _use_s(expires: object) -> float:
    """How long to use a session that ends at this time, by a clock of ours that may be wrong."""
    try:
        end = datetime.fromisoformat(str(expires))
        left_s = (end - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError):
        return LONGEST_SESSION_USE_S
    return min(max(left_s * USED_SHARE_OF_SESSION, SHORTEST_SESSION_USE_S), LONGEST_SESSION_USE_S)
