"""`[publishers.NAME]`: one table per destination, by its `kind`; checked without importing their libraries."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from agent.publish.contract import Publisher
from agent.publish.node_url import NodeUrl
from agent.publish.sender import SenderSettings
from drivers.errors import ConfigError as SettingsError
from protocol.ethereum.signer import Signer
from runtime.backoff import Backoff
from runtime.mqtt.settings import BrokerSettings, tls_problems
from runtime.settings import Between, Port, Seconds, Text, check_settings
from runtime.toml_file import dotted

if TYPE_CHECKING:
    from agent.publish.websocket import Listener


@dataclass(frozen=True, slots=True)
class NodeAddress:
    def problem(self, value: str) -> str:
        try:
            NodeUrl.parse(value).host.encode("idna")  # as it is encoded when a connection is opened
        except ValueError as error:
            if "@" in value:  # the part before it may be a password
                return "not a node URL; expected http://HOST:PORT"
            return str(error)
        return ""


Url = Annotated[str, NodeAddress()]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublisherConfig:
    """The settings of every kind."""

    backlog_per_s: Annotated[float, Between(0.001, 1e6)] | None = (
        None  # messages per second of a backlog; none: unlimited
    )
    deadline_s: Seconds = 30.0  # reconnect when messages are in flight and nothing was acknowledged for this long
    retry_first_s: Seconds = 0.5  # first retry delay; doubles with each attempt, with jitter …
    retry_max_s: Seconds = 60.0  # … up to this

    def sender_settings(self) -> SenderSettings:
        backoff = Backoff(first_s=self.retry_first_s, max_s=max(self.retry_first_s, self.retry_max_s))
        return SenderSettings(backoff=backoff, deadline_s=self.deadline_s, backlog_per_s=self.backlog_per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileConfig(PublisherConfig):
    path: Path  # path of the file or folder
    format: Literal["lines", "directory"] = "lines"  # one message per line, or one file per message
    max_megabytes: Annotated[int, Between(1, 1 << 20)] = 128  # size limit; above it the oldest is removed


@dataclass(frozen=True, slots=True, kw_only=True)
class WebsocketConfig(PublisherConfig):
    url: Url  # URL of the node: ws://host:port/api/v1/ws, wss for TLS
    ca_file: Path | None = None  # CA certificates (PEM) to trust for TLS; none: the system's
    create_streams: bool = True  # create missing streams under the device's address


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpConfig(PublisherConfig):
    url: Url  # URL of the node: http://host:port, https for TLS
    ca_file: Path | None = None  # CA certificates (PEM) to trust for TLS; none: the system's
    connections: Annotated[int, Between(1, 16)] = 4  # parallel connections; the messages of a chain use the same one
    create_streams: bool = True  # create missing streams under the device's address


@dataclass(frozen=True, slots=True, kw_only=True)
class MqttConfig(PublisherConfig):
    host: Text  # host name of the broker
    port: Port = 1883  # port of the broker; usually 8883 with TLS
    version: Literal["5", "3.1.1"] = "5"  # MQTT protocol version
    client_id: str = ""  # default: the device's address
    topic: Text = "{stream}"  # topic; may contain `{stream}`, `{partition}`, `{publisher}`, `{chain}`
    payload: Literal["stream_message", "io_message"] = "stream_message"  # io_message: without the signature
    messages_per_publication: Annotated[int, Between(1, 1000)] = 64  # limit, sent as a JSON array; 1: no array
    username: str | None = None  # user name, if the broker requires one
    password_file: Path | None = None  # private file with the password; requires username
    tls: Literal["off", "on"] = "off"  # encrypt, and verify the broker's certificate
    ca_file: Path | None = None  # CA certificates (PEM) to trust for TLS; none: the system's
    cert_file: Path | None = None  # client certificate (PEM), if the broker requires one
    key_file: Path | None = None  # private key of the client certificate

    def __post_init__(self) -> None:
        from agent.publish.mqtt_payload import check_topic_template

        check_topic_template(self.topic)
        problems = list(tls_problems(self))
        if self.password_file and not self.username:
            problems.append("username: missing; password_file requires it")
        if problems:
            raise SettingsError(*problems)


KINDS: Final[dict[str, type[PublisherConfig]]] = {
    "file": FileConfig,
    "http": HttpConfig,
    "mqtt": MqttConfig,
    "websocket": WebsocketConfig,
}


def check_publisher(name: str, table: Mapping[str, object]) -> PublisherConfig:
    """Raises: drivers.ConfigError with every problem of the table."""
    path = dotted("publishers", name)
    rest = dict(table)
    kind = rest.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise SettingsError(f"{path}.kind: {_no_such_kind(kind)}")
    return check_settings(KINDS[kind], rest, path)


def _no_such_kind(kind: object) -> str:
    if not isinstance(kind, str):
        return f"missing; expected one of {', '.join(KINDS)}"
    import difflib

    close = difflib.get_close_matches(kind, KINDS, n=1)
    known = f"did you mean {close[0]}?" if close else f"there are {', '.join(KINDS)}"
    return f"{kind!r:.40} is not a kind of publisher; {known}"


def build_publisher(
    name: str,
    config: PublisherConfig,
    signer: Signer,
    listener: "Listener | None" = None,
    *,
    readers_of: Callable[[str], Collection[str]],
) -> Publisher:
    """The publisher of a table; its libraries are imported here, on use.

    `readers_of` gives the addresses that may subscribe to a stream.
    """
    match config:
        case FileConfig():
            from agent.publish.file import FilePublisher

            return FilePublisher(name, config.path, config.format, max_bytes=config.max_megabytes << 20)
        case WebsocketConfig():
            from agent.publish.node_rest import NodeSettings
            from agent.publish.websocket import WebsocketPublisher, WebsocketSettings

            node = NodeSettings(url=NodeUrl.parse(config.url), ca_file=config.ca_file)
            settings = WebsocketSettings(node=node, create_streams=config.create_streams, readers_of=readers_of)
            return WebsocketPublisher(name, settings, signer, listener)
        case HttpConfig():
            from agent.publish.http import HttpPublisher
            from agent.publish.node_rest import NodeSettings

            return HttpPublisher(
                name,
                NodeSettings(url=NodeUrl.parse(config.url), ca_file=config.ca_file),
                signer,
                connections=config.connections,
                create_streams=config.create_streams,
                readers_of=readers_of,
            )
        case MqttConfig():
            return build_mqtt_publisher(name, config, config.client_id or signer.address)
    raise TypeError(f"no publisher for {type(config).__name__}")


def build_mqtt_publisher(name: str, config: MqttConfig, client_id: str) -> Publisher:
    """An MQTT publisher under any client id; it needs no key of the device."""
    from agent.publish.mqtt import MqttPublisher, MqttSettings

    same = ("host", "port", "version", "username", "password_file", "tls", "ca_file", "cert_file", "key_file")
    given: dict[str, Any] = {name: getattr(config, name) for name in same}
    settings = MqttSettings(
        broker=BrokerSettings(client_id=client_id, **given),
        topic=config.topic,
        payload=config.payload,
        messages_per_publication=config.messages_per_publication,
    )
    return MqttPublisher(name, settings)
