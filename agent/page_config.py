"""Where the status page listens, and who may see it."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from drivers.errors import ConfigError
from drivers.settings import Matching, Text

__all__ = ["OFF", "PageConfig"]

OFF: Final = "off"
_NAME: Final = r"[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})*"
LISTEN_FORM: Final = Matching(rf"off|(\[[0-9A-Fa-f:.]+\]|{_NAME}):[0-9]{{1,5}}", "127.0.0.1:7080, or off")
MAX_PORT: Final = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class PageConfig:
    """The `[page]` table. Whoever can reach an address that is not this machine's own must show a token."""

    listen: Annotated[str, LISTEN_FORM] = "127.0.0.1:7080"  # port 0: any that is free
    token_file: Path | None = None  # private file; required where the address can be reached from elsewhere
    hosts: tuple[Text, ...] = ()  # names by which a browser may ask besides the address; of a proxy in front, say

    def __post_init__(self) -> None:
        if self.listen == OFF:
            return
        if self.port > MAX_PORT:
            raise ConfigError(f"listen: port {self.port} is above {MAX_PORT}")
        if self.token_file is None and not self.is_loopback:
            raise ConfigError(f"token_file: missing; {self.host} can be reached from elsewhere")

    @property
    def host(self) -> str:
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.listen.rpartition(":")[2])

    @property
    def is_loopback(self) -> bool:
        return self.host in ("localhost", "::1") or re.fullmatch(r"127(\.[0-9]{1,3}){3}", self.host) is not None
