"""The settings of a connection to a broker, with the same names for every user of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol


class TlsFiles(Protocol):
    """The TLS settings of a table."""

    @property
    def tls(self) -> Literal["off", "on"]: ...
    @property
    def ca_file(self) -> Path | None: ...
    @property
    def cert_file(self) -> Path | None: ...
    @property
    def key_file(self) -> Path | None: ...


def tls_problems(files: TlsFiles) -> Iterator[str]:
    """The contradictions of the TLS settings, one `field: problem` each."""
    if files.tls == "off" and (files.ca_file or files.cert_file or files.key_file):
        yield 'tls: off, but certificates are given; did you mean "on"?'
    if (files.cert_file is None) != (files.key_file is None):
        yield "cert_file: a certificate and its key_file belong together"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    host: str
    port: int
    client_id: str  # the broker knows the session by it
    version: Literal["5", "3.1.1"] = "5"
    username: str | None = None
    password_file: Path | None = None
    tls: Literal["off", "on"] = "off"
    ca_file: Path | None = None  # None: the certificates that the system trusts
    cert_file: Path | None = None
    key_file: Path | None = None
    keepalive_s: int = 30
    session_expiry_s: int = 7 * 86_400  # 0: the session ends with the connection
    connect_timeout_s: float = 10.0

    @property
    def url(self) -> str:
        return f"{'mqtts' if self.tls == 'on' else 'mqtt'}://{self.host}:{self.port}"
