"""Settings of the MQTT bridge: the broker, and which topics belong to which streams."""

import socket
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple, Self
from urllib.parse import unquote, urlsplit

from paho.mqtt.client import topic_matches_sub

from node.errors import ConfigError
from runtime.mqtt.settings import BrokerSettings, tls_problems
from runtime.private_files import check_private_file

PLAIN_PORT: Final = 1883
TLS_PORT: Final = 8883
MAX_TOPIC_BYTES: Final = 65_535
NEVER_S: Final = 0xFFFFFFFF  # a session that does not expire


class Route(NamedTuple):
    """A topic filter, and the only stream that is accepted through it; None: any stream."""

    topic_filter: str
    stream_id: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """`FILTER=STREAM`, or `FILTER` alone. The filter must not contain an equals sign. Raises: `ConfigError`."""
        topic_filter, _, stream_id = text.partition("=")
        if not _is_topic_filter(topic_filter):
            raise ConfigError(
                f"mqtt: {topic_filter!r} is not a topic filter; # must be the last level, + a whole level"
            )
        return cls(topic_filter, stream_id or None)

    def accepts(self, topic: str, stream_id: str) -> bool:
        return self.stream_id in (None, stream_id) and topic_matches_sub(self.topic_filter, topic)


@dataclass(frozen=True, slots=True, kw_only=True)
class MqttSettings:
    """The client id must be the same at every start: the broker finds the unacknowledged messages by it."""

    broker: BrokerSettings
    routes: tuple[Route, ...]

    def __post_init__(self) -> None:
        if not self.routes:
            raise ConfigError("mqtt: no topic to subscribe to; add --mqtt-topic FILTER")
        broker = self.broker
        problems = [f"mqtt: {problem}" for problem in tls_problems(broker)]
        public = [file for file in (broker.ca_file, broker.cert_file) if file is not None and not file.is_file()]
        problems += [f"mqtt: {file}: no such file" for file in public]
        for file in (broker.password_file, broker.key_file):
            if file is not None:
                problems += _secret_problems(file)
        if problems:
            raise ConfigError(*problems)

    @classmethod
    def from_url(cls, url: str, *, routes: tuple[Route, ...], **options: Any) -> Self:
        """`url` is `mqtt://[USER@]HOST[:PORT]`, or `mqtts://…` for TLS; `options` are fields of `BrokerSettings`.

        Raises: `ConfigError`.
        """
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
            raise ConfigError(
                "mqtt: expected a URL mqtt://[USER@]HOST[:PORT]; a password goes into --mqtt-password-file"
            )
        is_secure = parts.scheme == "mqtts"
        broker = BrokerSettings(
            host=host,
            port=port or (TLS_PORT if is_secure else PLAIN_PORT),
            tls="on" if is_secure else "off",
            username=unquote(parts.username) if parts.username else None,
            session_expiry_s=NEVER_S,
            **options,
        )
        return cls(broker=broker, routes=routes)


def _secret_problems(file: Path) -> list[str]:
    try:
        check_private_file(file)
    except ConfigError as error:
        return [f"mqtt: {error}"]
    except OSError as error:
        return [f"mqtt: {file}: {error.strerror}"]
    return []


def stable_client_id(data: Path) -> str:
    """A client id that is derived from the machine and the data directory, so it survives restarts and is unique."""
    return "headgate-" + sha256(f"{socket.gethostname()}\0{data.resolve()}".encode()).hexdigest()[:14]


def _is_topic_filter(text: str) -> bool:
    levels = text.split("/")
    return (
        0 < len(text.encode(errors="replace")) <= MAX_TOPIC_BYTES
        and "\0" not in text
        and all("#" not in level or (level == "#" and index == len(levels) - 1) for index, level in enumerate(levels))
        and all("+" not in level or level == "+" for level in levels)
    )
