"""Which broker to listen to, and which topics belong to which streams."""

import socket
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple, Self
from urllib.parse import unquote, urlsplit

from paho.mqtt.client import topic_matches_sub

from node.errors import ConfigError

__all__ = ["MqttSettings", "Route", "stable_client_id"]

PLAIN_PORT: Final = 1883
TLS_PORT: Final = 8883
MAX_TOPIC_BYTES: Final = 65_535


class Route(NamedTuple):
    """A filter of topics, and the one stream that may come through it; None for any stream."""

    topic_filter: str
    stream_id: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """`FILTER=STREAM`, or `FILTER` alone. A topic may not hold an equals sign here. Raises: `ConfigError`."""
        topic_filter, _, stream_id = text.partition("=")
        if not _is_topic_filter(topic_filter):
            raise ConfigError(f"mqtt: {topic_filter!r} is no topic filter; # stands at the end, + between two slashes")
        return cls(topic_filter, stream_id or None)

    def takes(self, topic: str, stream_id: str) -> bool:
        return self.stream_id in (None, stream_id) and topic_matches_sub(self.topic_filter, topic)


@dataclass(frozen=True, slots=True, kw_only=True)
class MqttSettings:
    """The client id must stay the same from start to start: by it the broker knows what was not acknowledged."""

    host: str
    port: int
    client_id: str
    routes: tuple[Route, ...]
    uses_tls: bool = False
    ca_file: Path | None = None
    username: str | None = None
    password_file: Path | None = None

    def __post_init__(self) -> None:
        if not self.routes:
            raise ConfigError("mqtt: no topic is given to listen to")
        for file in (self.ca_file, self.password_file):
            if file is not None and not file.is_file():
                raise ConfigError(f"mqtt: {file} is no file")

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        client_id: str,
        routes: tuple[Route, ...],
        ca_file: Path | None = None,
        password_file: Path | None = None,
    ) -> Self:
        """`mqtt://[USER@]HOST[:PORT]`, or `mqtts://…` for TLS. Raises: `ConfigError`."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port = None, None
        if (
            not host
            or parts.scheme not in ("mqtt", "mqtts")
            or parts.password is not None
            or parts.path not in ("", "/")
        ):
            raise ConfigError("mqtt: the URL is not mqtt://[USER@]HOST[:PORT]; a password belongs into a file")
        uses_tls = parts.scheme == "mqtts"
        return cls(
            host=host,
            port=port or (TLS_PORT if uses_tls else PLAIN_PORT),
            client_id=client_id,
            routes=routes,
            uses_tls=uses_tls,
            ca_file=ca_file,
            username=unquote(parts.username) if parts.username else None,
            password_file=password_file,
        )


def stable_client_id(data: Path) -> str:
    """The same for the same data on the same machine, and no other's."""
    return "headgate-" + sha256(f"{socket.gethostname()}\0{data.resolve()}".encode()).hexdigest()[:14]


def _is_topic_filter(text: str) -> bool:
    levels = text.split("/")
    return (
        0 < len(text.encode(errors="replace")) <= MAX_TOPIC_BYTES
        and "\0" not in text
        and all("#" not in level or (level == "#" and index == len(levels) - 1) for index, level in enumerate(levels))
        and all("+" not in level or level == "+" for level in levels)
    )
