"""The URL of a node, and of its websocket and REST interfaces."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

API_PREFIX = "/api/v1"
WEBSOCKET_PATH = f"{API_PREFIX}/ws?controlLayerVersion=2&messageLayerVersion=32"
_SECURE = {"http": False, "ws": False, "https": True, "wss": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUrl:
    """A node at `host:port`, with TLS or without. REST and websocket share the port."""

    host: str
    port: int
    is_secure: bool

    @classmethod
    def parse(cls, text: str) -> Self:
        """From `http(s)://HOST[:PORT]`, `ws(s)://…` or `HOST:PORT`. Raises ValueError."""
        parts = urlsplit(text if "://" in text else f"http://{text}")
        if parts.scheme not in _SECURE:
            raise ValueError(f"{text!r} does not begin with http, https, ws or wss")
        if not parts.hostname or parts.username is not None or parts.query or parts.fragment:
            raise ValueError(f"{text!r} is not a node URL; expected http://HOST:PORT")
        if parts.path.rstrip("/") not in ("", API_PREFIX, f"{API_PREFIX}/ws"):
            raise ValueError(f"{text!r}: a node URL has no path other than {API_PREFIX}")
        is_secure = _SECURE[parts.scheme]
        return cls(host=parts.hostname, port=parts.port or (443 if is_secure else 80), is_secure=is_secure)

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def websocket(self) -> str:
        return f"{'wss' if self.is_secure else 'ws'}://{self.address}{WEBSOCKET_PATH}"

    def tls_context(self, ca_file: Path | None) -> ssl.SSLContext | None:
        """What checks the node's certificate; None where there is no TLS. Raises: OSError, if the file is not good."""
        return ssl.create_default_context(cafile=ca_file) if self.is_secure else None

    def __str__(self) -> str:
        return f"{'https' if self.is_secure else 'http'}://{self.address}"
