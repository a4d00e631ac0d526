"""Requests to a collector, and what its refusals mean."""

import contextlib
import http.client
import json
import socket
import ssl
import threading
from typing import Final
from urllib.parse import urlsplit

from agent.archive.settings import ShipConfig
from agent.errors import LinkDown, Rejected
from protocol.shipping import Reaction, reaction_to
from runtime.errors import connection_error_text

MAX_PROBLEM_BYTES: Final = 4096
MAX_DETAIL_CHARACTERS: Final = 400  # of a refusal's text
CONNECTION_ERRORS: Final = (http.client.HTTPException, TimeoutError, ConnectionError, ssl.SSLError)


class LogForked(Rejected):
    """The collector holds another log than this device: the archive is accepted in a new log only."""


class Abort:
    """Lets another thread end a request at once. The collector retains its part, and the next upload continues it."""

    def __init__(self) -> None:
        self._is_set = threading.Event()
        self._connection: http.client.HTTPConnection | None = None

    def watch(self, connection: http.client.HTTPConnection) -> None:
        self._connection = connection

    def now(self) -> None:
        self._is_set.set()
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with contextlib.suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    def wait(self, seconds: float) -> None:
        """Raises: LinkDown if it is set meanwhile."""
        if self._is_set.wait(seconds):
            raise LinkDown("the agent is stopping")


class CollectorConnection:
    """One connection, for requests one after the other."""

    def __init__(self, config: ShipConfig, abort: Abort) -> None:
        assert config.url is not None
        url = urlsplit(config.url)
        self._url = config.url
        self._base = url.path.rstrip("/")
        if url.scheme == "https":
            context = ssl.create_default_context(cafile=config.ca_file)
            self._connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                url.netloc, timeout=config.timeout_s, context=context
            )
        else:
            self._connection = http.client.HTTPConnection(url.netloc, timeout=config.timeout_s)
        abort.watch(self._connection)

    def close(self) -> None:
        self._connection.close()

    def ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> http.client.HTTPResponse:
        """Raises: LinkDown, or one of `CONNECTION_ERRORS`, for which `down` has the words."""
        try:
            self._connection.request(method, self._base + path, body=body or None, headers=headers)
            return self._connection.getresponse()
        except OSError as error:
            raise self.down(error) from error

    def down(self, error: Exception) -> LinkDown:
        return LinkDown(f"{self._url}: {connection_error_text(error, self._connection.host)}")


def refuse(status: int, body: bytes) -> None:
    """Returns if requesting the offset again may help. Raises: LogForked, Rejected, LinkDown."""
    code, detail = _read_problem(body)
    match reaction_to(status, code):
        case Reaction.ASK_OFFSET | Reaction.START_OVER:
            return
        case Reaction.BEGIN_LOG:
            raise LogForked(f"{status} {code}: {detail}")
        case Reaction.SET_ASIDE:
            raise Rejected(f"{status} {code}: {detail}")
        case _:
            answer = f"the collector answers {status} {code or ''}".rstrip()
            raise LinkDown(f"{answer}: {detail}" if detail else answer)


def _read_problem(body: bytes) -> tuple[str | None, str]:
    """Code and detail of a refusal, where the answer has them."""
    try:
        problem = json.loads(body)
    except (ValueError, RecursionError):
        return None, ""
    if not isinstance(problem, dict):
        return None, ""
    code, detail = problem.get("code"), problem.get("detail", "")
    return (code if isinstance(code, str) else None), str(detail)[:MAX_DETAIL_CHARACTERS]
