"""Access control of the status page.

On a loopback address every local user has access; but a web page elsewhere must not reach it by a name that it points
here (DNS rebinding), so the requested host name must be one of ours. On any other address a client needs the token: in
`Authorization: Bearer …`, or in a cookie that the login form gives. The cookie is derived from the token, so it is
valid as long as the token is, across restarts too, and does not reveal it.
"""

import hashlib
import hmac
from typing import Final

from agent.config.page import PageConfig, read_token
from runtime.http import Request
from runtime.web_origin import KnownHosts, own_hosts

COOKIE_NAME: Final = "headgate"
COOKIE_PURPOSE: Final = b"headgate status page"
COOKIE_AGE_S: Final = 30 * 86_400
FORM_FIELD: Final = b"token="
BEARER: Final = "bearer "


class Access:
    def __init__(self, config: PageConfig) -> None:
        """Raises: ConfigError if the token cannot be had."""
        self._token = None if config.token_file is None else read_token(config.token_file)
        names = own_hosts(config.host, config.hosts)
        self._hosts = KnownHosts(names=names) if config.is_loopback else None

    def knows_host(self, request: Request) -> bool:
        """Whether the browser asked for a name of ours. Where the address is not this machine's own, any will do."""
        return self._hosts is None or self._hosts.knows(request.headers.get("host", ""))

    def allows(self, request: Request) -> bool:
        if self._token is None:
            return True
        given = request.headers.get("authorization", "")
        if given[: len(BEARER)].lower() == BEARER:
            return _same(given[len(BEARER) :].strip().encode("latin-1"), self._token.reveal())
        return _same(_cookie(request).encode("latin-1"), self._cookie_value().encode())

    def log_in(self, form: bytes) -> str | None:
        """The cookie to set for a form with the right token."""
        if self._token is None or not _same(form.removeprefix(FORM_FIELD), self._token.reveal()):
            return None
        return f"{COOKIE_NAME}={self._cookie_value()}; Path=/; Max-Age={COOKIE_AGE_S}; HttpOnly; SameSite=Strict"

    def _cookie_value(self) -> str:
        assert self._token is not None
        return hmac.new(self._token.reveal(), COOKIE_PURPOSE, hashlib.sha256).hexdigest()


def _same(given: bytes, wanted: bytes) -> bool:
    """In a time that does not tell where they differ."""
    return hmac.compare_digest(given, wanted)


def _cookie(request: Request) -> str:
    for pair in request.headers.get("cookie", "").split(";"):
        name, _, value = pair.strip().partition("=")
        if name == COOKIE_NAME:
            return value
    return ""
