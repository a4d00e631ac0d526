"""The `[page]` table: address of the status page, and the token that protects it."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from agent.errors import ConfigError
from agent.keys.files import read_credential
from agent.keys.secret import Secret
from runtime.private_files import read_private_file
from runtime.settings import Matching, Text

OFF: Final = "off"
_NAME: Final = r"[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})*"
LISTEN_FORM: Final = Matching(rf"off|(\[[0-9A-Fa-f:.]+\]|{_NAME}):[0-9]{{1,5}}", "127.0.0.1:7080, or off")
MAX_PORT: Final = 65_535
TOKEN_FORM: Final = re.compile(rb"[A-Za-z0-9._~-]{16,256}")
MAX_TOKEN_FILE_BYTES: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PageConfig:
    """The `[page]` table. A token is required on any address that other machines can reach."""

    listen: Annotated[str, LISTEN_FORM] = "127.0.0.1:7080"  # address of the status page; port 0 picks a free one
    token_file: Path | None = None  # private file with the token; required if other machines can reach the address
    hosts: tuple[Text, ...] = ()  # further host names of the page, such as that of a reverse proxy

    def __post_init__(self) -> None:
        if self.listen == OFF:
            return
        if self.port > MAX_PORT:
            raise ConfigError(f"listen: port {self.port} is above {MAX_PORT}")
        if self.token_file is None and not self.is_loopback:
            raise ConfigError(
                f"token_file: missing; it is required because {self.host} is reachable from other machines"
            )

    @property
    def host(self) -> str:
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.listen.rpartition(":")[2])

    @property
    def is_loopback(self) -> bool:
        return self.host in ("localhost", "::1") or re.fullmatch(r"127(\.[0-9]{1,3}){3}", self.host) is not None


def read_token(path: Path) -> Secret:
    """Raises: ConfigError if there is no such token, or others could read it."""
    try:
        token = _read_token_file(path).strip()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    if TOKEN_FORM.fullmatch(token) is None:
        raise ConfigError(f"{path}: a token must have 16 to 256 letters, digits, '-', '_', '.' or '~'")
    return Secret(token)


def _read_token_file(path: Path) -> bytes:
    credentials = os.environ.get("CREDENTIALS_DIRECTORY")
    is_credential = credentials is not None and path.is_relative_to(credentials)
    return (read_credential if is_credential else read_private_file)(path, max_bytes=MAX_TOKEN_FILE_BYTES)
