"""The check of the `Host` and `Origin` headers of a request, before anything else of it is read.

| node listens on | `Host` must be |
|---|---|
| loopback | a name of this machine, or one of `access.hosts` |
| another address, `access.hosts` given | a name of this machine, a numeric address, or one of `access.hosts` |
| another address | anything, except for status pages that only this machine may see |

`Origin`, which browsers send, must be one of `access.origins` or the node's own. Pages of these origins may read the
responses (CORS).
"""

import re
from http import HTTPStatus
from typing import Final

from node.access.policy import Access, Audience
from node.errors import ErrorCode, Refused
from node.http.messages import Request
from runtime.http import Response
from runtime.web_origin import KnownHosts, Origins, is_loopback_host, own_hosts

MAX_SHOWN_CHARACTERS: Final = 100
PREFLIGHT_S: Final = "600"
_HEADER_NAMES: Final = re.compile(r"[A-Za-z0-9, -]{0,500}")


class WebGuard:
    def __init__(self, access: Access, listen_host: str) -> None:
        is_loopback = is_loopback_host(listen_host)
        self._hosts = KnownHosts(names=own_hosts(listen_host, access.hosts), accepts_addresses=not is_loopback)
        self._origins = Origins(hosts=self._hosts, allowed=access.origins)
        self._is_strict = is_loopback or bool(access.hosts)
        self._guards_status = access.status is Audience.LOOPBACK

    def check(self, request: Request) -> None:
        """Raises: `Refused`, PERMISSION_DENIED."""
        origin, host = request.headers.get("origin"), request.headers.get("host", "")
        if self._is_strict:
            self._check_host(host)
        if not self._origins.allows(origin, host):
            raise _refused(f"Pages of {_shown(origin or '')} may not use this node", "access.origins")

    def check_status(self, request: Request) -> None:
        """The check for pages that only this machine may see. Raises: `Refused`, PERMISSION_DENIED."""
        if self._guards_status:
            self._check_host(request.headers.get("host", ""))

    def _check_host(self, host: str) -> None:
        if not self._hosts.knows(host):
            raise _refused(f"This node does not accept the host name {_shown(host)}", "access.hosts")

    def preflight(self, request: Request) -> Response | None:
        """The response to a CORS preflight request of a browser; None for any other request."""
        requested = request.headers.get("access-control-request-headers", "")
        if request.method != "OPTIONS" or "origin" not in request.headers:
            return None
        headers = {"Access-Control-Allow-Methods": "GET, POST, PUT, DELETE", "Access-Control-Max-Age": PREFLIGHT_S}
        if _HEADER_NAMES.fullmatch(requested):
            headers["Access-Control-Allow-Headers"] = requested
        return Response(status=HTTPStatus.NO_CONTENT, headers={**headers, **self.headers(request)})

    def headers(self, request: Request) -> dict[str, str]:
        """The CORS headers for a request with an allowed origin; none without an origin."""
        origin = request.headers.get("origin")
        return {} if origin is None else {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}


def _refused(problem: str, setting: str) -> Refused:
    return Refused(ErrorCode.PERMISSION_DENIED, f"{problem}; the operator can add it to {setting}")


def _shown(text: str) -> str:
    return repr(text[:MAX_SHOWN_CHARACTERS])
