"""Who may see the page.

On an address of this machine alone, whoever is on the machine; but a web page elsewhere must not reach it by a name
that it points here (DNS rebinding), so the name that the browser asked for has to be one of ours. On any other address,
whoever has the token: in `Authorization: Bearer …`, or in a cookie that the login form gives. The cookie is derived
from the token, so it is good for as long as the token is, over restarts too, and does not tell it.
"""

import hashlib
import hmac
import os
import re
from pathlib import Path
from typing import Final

from agent.errors import ConfigError
from agent.keys.private_files import read_credential, read_private_file
from agent.keys.secret import Secret
from agent.page.request import Request
from agent.page_config import PageConfig

__all__ = ["Access", "read_token"]

TOKEN_FORM: Final = re.compile(rb"[A-Za-z0-9._~-]{16,256}")
MAX_TOKEN_FILE_BYTES: Final = 1024
COOKIE_NAME: Final = "headgate"
COOKIE_PURPOSE: Final = b"headgate status page"
COOKIE_AGE_S: Final = 30 * 86_400
FORM_FIELD: Final = b"token="
BEARER: Final = "bearer "
OWN_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]+)(:[0-9]{1,5})?")


def read_token(path: Path) -> Secret:
    """Raises: ConfigError if there is no such token, or others could read it."""
    try:
        token = _read(path).strip()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    if TOKEN_FORM.fullmatch(token) is None:
        raise ConfigError(f"{path}: a token has 16 to 256 letters, digits, '-', '_', '.' or '~'")
    return Secret(token)


def _read(path: Path) -> bytes:
    credentials = os.environ.get("CREDENTIALS_DIRECTORY")
    is_credential = credentials is not None and path.is_relative_to(credentials)
    return (read_credential if is_credential else read_private_file)(path, max_bytes=MAX_TOKEN_FILE_BYTES)


class Access:
    def __init__(self, config: PageConfig) -> None:
        """Raises: ConfigError if the token cannot be had."""
        self._token = None if config.token_file is None else read_token(config.token_file)
        own = config.host if ":" not in config.host else f"[{config.host}]"
        self._hosts = (
            {*OWN_NAMES, own.lower(), *(host.lower() for host in config.hosts)} if config.is_loopback else None
        )

    def knows_host(self, request: Request) -> bool:
        """Whether the browser asked for a name of ours. Where the address is not this machine's own, any will do."""
        if self._hosts is None:
            return True
        matched = _HOST.fullmatch(request.headers.get("host", "").lower())
        return matched is not None and matched[1].rstrip(".") in self._hosts

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
