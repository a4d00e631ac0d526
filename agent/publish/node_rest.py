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
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import orjson

from agent.errors import LinkDown, Rejected
from agent.publish.node_url import API_PREFIX, NodeUrl
from protocol.ethereum.signer import Signer
from protocol.shown_text import printable_start
from runtime.errors import connection_error_text

READ_OPERATIONS = ("stream_get", "stream_subscribe")
MAX_SHARED_STREAMS = 10_000
MAX_REPLY_BYTES = 1024 * 1024
MAX_REFUSAL_CHARACTERS = 300
MAX_SHOWN_CHALLENGE_CHARACTERS = 120
LONGEST_SESSION_USE_S = 3_600.0  # then a new one is opened, whatever end the node states
SHORTEST_SESSION_USE_S = 60.0  # even if it ends sooner by a clock that may be wrong
USED_SHARE_OF_SESSION = 0.8


ReadersOf = Callable[[str], Collection[str]]  # the addresses that may subscribe to a stream, by its id

log = logging.getLogger(__name__)


def no_readers(_stream_id: str) -> Collection[str]:
    """No address, for publishers without readers."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """The address of a node. `deadline_s` bounds every request, and the response to every ping."""

    url: NodeUrl
    ca_file: Path | None = None
    deadline_s: float = 15.0


class Reply(NamedTuple):
    status: int
    body: bytes

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed at another time."""
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
        """Post, on a new connection if the old one was closed. Raises: LinkDown.

        So a request may arrive twice; callers post only what is harmless then.
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
            self.close()  # the rest of a response that is too long is not read
        return reply

    def _down(self, problem: Exception) -> LinkDown:
        return LinkDown(f"{self.url}: {connection_error_text(problem, self.url.host)}")


class NodeSession:
    """A login at a node: a token, obtained by signing a challenge and renewed before it ends. For any thread."""

    def __init__(self, rest: NodeRest, signer: Signer, *, now_s: Callable[[], float] = time.monotonic) -> None:
        self._rest = rest
        self._signer = signer
        self._now_s = now_s
        self._lock = threading.RLock()
        self._token: str | None = None
        self._created_stream = ""
        self._shared_streams: set[str] = set()
        self._renew_at_s = 0.0

    @property
    def is_fresh(self) -> bool:
        """Whether `token` would return without a request to the node."""
        return self._token is not None and self._now_s() < self._renew_at_s

    def token(self) -> str:
        """Raises: LinkDown, Rejected."""
        with self._lock:
            if self._token is None or not self.is_fresh:
                with contextlib.closing(self._rest):  # it is not needed again for a long time
                    self._token, self._renew_at_s = self._log_in()
            return self._token

    def drop_token(self) -> None:
        """Drop the token, because the node refused it."""
        self._token = None

    def create_stream(self, stream_id: str, partitions: int) -> str:
        """Create the stream if it is missing. Returns the node's reason if it was not created. Raises: LinkDown."""
        stream = {"id": stream_id, "name": stream_id, "partitions": partitions}
        with self._lock:
            try:
                with contextlib.closing(self._rest):
                    self._request("/streams", stream, {"Authorization": f"Bearer {self.token()}"})
            except Rejected as problem:
                return str(problem)
            self._created_stream = stream_id
        return ""

    def share_stream(self, stream_id: str, readers: Collection[str]) -> None:
        """Let readers subscribe to a stream of this device, once for each session. Raises: LinkDown.

        A node that refuses it, because the stream belongs to another user, gets no second request.
        """
        with self._lock:
            if not readers or stream_id in self._shared_streams:
                return
            path = f"/streams/{quote(stream_id, safe='')}/permissions"
            try:
                with contextlib.closing(self._rest):
                    for reader, operation in product(sorted(readers), READ_OPERATIONS):
                        permission = {"user": reader, "operation": operation}
                        self._request(path, permission, {"Authorization": f"Bearer {self.token()}"})
            except Rejected as problem:
                log.warning("cannot grant readers access on the node; stream=%s problem=%s", stream_id, problem)
            if len(self._shared_streams) >= MAX_SHARED_STREAMS:
                self._shared_streams.clear()
            self._shared_streams.add(stream_id)

    def has_just_created(self, stream_id: str) -> bool:
        """Whether this is the last stream that was created. Waits while one is being created: the node refuses messages
        until it has granted our permissions."""
        with self._lock:
            return self._created_stream == stream_id

    def _log_in(self) -> tuple[str, float]:
        challenge = self._request(f"/login/challenge/{quote(self._signer.address)}", None)
        signature = self._sign(str(challenge.get("challenge", "")))
        answer = {"challenge": challenge, "signature": signature, "address": self._signer.address}
        session = self._request("/login/response", answer)
        token = session.get("token")
        if not isinstance(token, str) or not token:
            raise LinkDown(f"{self._rest.url}: no session token in the response; is it a node?")
        return token, self._now_s() + _use_s(session.get("expires"))

    def _sign(self, challenge: str) -> str:
        """Raises: Rejected for a text that is no login challenge: its signature could be misused elsewhere."""
        try:
            return self._signer.sign_challenge(challenge)
        except ValueError:
            shown = printable_start(challenge, MAX_SHOWN_CHALLENGE_CHARACTERS)
            raise Rejected(
                f"{self._rest.url}: asked to sign a text that is not a login challenge, and was refused; it may not be"
                f" your node, or another machine answers in its place; check the URL and use https; it sent {shown!r}"
            ) from None

    def _request(self, path: str, body: object, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        reply = self._rest.post(path, b"" if body is None else orjson.dumps(body), headers)
        if reply.may_pass:
            raise LinkDown(f"{self._rest.url}{API_PREFIX}{path}: {refusal_text(reply)}")
        if not reply.is_good:
            raise Rejected(f"{self._rest.url}{API_PREFIX}{path}: {refusal_text(reply)}")
        try:
            answer = orjson.loads(reply.body)
        except orjson.JSONDecodeError:
            answer = None
        if not isinstance(answer, dict):
            raise LinkDown(f"{self._rest.url}{API_PREFIX}{path}: the response is not JSON; is it a node?")
        return answer


def refusal_text(reply: Reply) -> str:
    """The status and the reason in a reply, as one bounded line."""
    try:
        reason = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        reason = reply.body.decode(errors="replace")
    if isinstance(reason, dict):
        reason = reason.get("error") or reason.get("message") or reason.get("code") or ""
    return f"{reply.status} {' '.join(str(reason).split())[:MAX_REFUSAL_CHARACTERS]}".strip()


def _use_s(expires: object) -> float:
    """How long to use a session that ends at this time; our clock may be wrong."""
    try:
        end = datetime.fromisoformat(str(expires))
        left_s = (end - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError):
        return LONGEST_SESSION_USE_S
    return min(max(left_s * USED_SHARE_OF_SESSION, SHORTEST_SESSION_USE_S), LONGEST_SESSION_USE_S)
