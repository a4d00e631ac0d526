"""`[publishers.NAME]`: one table per far end, by its `kind`; checked without loading what carries the messages."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from agent.publish.backoff import Backoff
from agent.publish.contract import Publisher
from agent.publish.delivery import DeliverySettings
from agent.publish.node_url import NodeUrl
from drivers.errors import ConfigError as SettingsError
from drivers.settings import Between, Port, Seconds, Text, check_settings
from protocol.streamr import Signer

if TYPE_CHECKING:
    from agent.publish.websocket import Listener

__all__ = ["PublisherConfig", "build_mqtt_publisher", "build_publisher", "check_publisher"]


@dataclass(frozen=True, slots=True)
class NodeAddress:
    def complain(self, value: str) -> str:
        try:
            NodeUrl.parse(value).host.encode("idna")  # as whoever connects will do
        except ValueError as error:
            if "@" in value:  # what stands before it may be a password
                return "not the URL of a node; write http://HOST:PORT"
            return str(error)
        return ""


Url = Annotated[str, NodeAddress()]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublisherConfig:
    """What every kind has."""

    backlog_per_s: Annotated[float, Between(0.001, 1e6)] | None = None  # none: as fast as it goes
    deadline_s: Seconds = 30.0  # without any acknowledgement, while something is under way: the link is dead
    retry_first_s: Seconds = 0.5  # wait before the second attempt; it doubles, shortened by chance …
    retry_max_s: Seconds = 60.0  # … up to this

    def delivery_settings(self) -> DeliverySettings:
        backoff = Backoff(first_s=self.retry_first_s, max_s=max(self.retry_first_s, self.retry_max_s))
        return DeliverySettings(backoff=backoff, deadline_s=self.deadline_s, backlog_per_s=self.backlog_per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileConfig(PublisherConfig):
    path: Path  # of the file or folder
    form: Literal["lines", "directory"] = "lines"  # one message per line, or one file per message


@dataclass(frozen=True, slots=True, kw_only=True)
class WebsocketConfig(PublisherConfig):
    url: Url  # of the node: ws://host:port/api/v1/ws, wss for TLS
    ca_file: Path | None = None  # whom to trust for TLS; none: the system's list
    create_streams: bool = True  # that are not there yet, under the device's own address


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpConfig(PublisherConfig):
    url: Url  # of the node: http://host:port, https for TLS
    ca_file: Path | None = None  # whom to trust for TLS; none: the system's list
    connections: Annotated[int, Between(1, 16)] = 4  # at once; messages of one chain share one
    create_streams: bool = True  # that are not there yet, under the device's own address


@dataclass(frozen=True, slots=True, kw_only=True)
class MqttConfig(PublisherConfig):
    host: Text  # of the broker
    port: Port = 1883  # of the broker; 8883 is usual with TLS
    version: Literal["5", "3.1.1"] = "5"  # of MQTT
    client_id: str = ""  # default: the device's address
    topic: Text = "{stream}"  # may hold `{stream}`, `{partition}`, `{publisher}`, `{chain}`
    payload: Literal["stream_message", "io_message"] = "stream_message"  # io_message: without the signature
    messages_per_publication: Annotated[int, Between(1, 1000)] = 64  # at most, as a JSON array; 1: never one
    username: str | None = None  # for a broker that asks
    password_file: Path | None = None  # private file; needs a username
    use_tls: bool = False  # encrypt, and check who the broker is
    ca_file: Path | None = None  # whom to trust for TLS; none: the system's list
    certificate_file: Path | None = None  # of this device, for a broker that asks for one
    key_file: Path | None = None  # of that certificate

    def __post_init__(self) -> None:
        from agent.publish.mqtt_payload import check_topic_template

        check_topic_template(self.topic)


KINDS: Final[dict[str, type[PublisherConfig]]] = {
    "file": FileConfig,
    "http": HttpConfig,
    "mqtt": MqttConfig,
    "websocket": WebsocketConfig,
}


def check_publisher(name: str, table: Mapping[str, object]) -> PublisherConfig:
    """Raises: drivers.ConfigError with every problem of the table."""
    path = f"publishers.{name}"
    rest = dict(table)
    kind = rest.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise SettingsError(f"{path}.kind: {_no_such_kind(kind)}")
    return check_settings(KINDS[kind], rest, path)


def _no_such_kind(kind: object) -> str:
    if not isinstance(kind, str):
        return f"missing; it is one of {', '.join(KINDS)}"
    import difflib

    close = difflib.get_close_matches(kind, KINDS, n=1)
    known = f"did you mean {close[0]}?" if close else f"there are {', '.join(KINDS)}"
    return f"{kind!r:.40} is no kind of publisher; {known}"


def build_publisher(
    name: str, config: PublisherConfig, signer: Signer, listener: "Listener | None" = None
) -> Publisher:
    """What carries the messages; its libraries are loaded here and not before."""
    match config:
        case FileConfig():
            from agent.publish.file import FilePublisher, FileSettings

            return FilePublisher(name, FileSettings(path=config.path, form=config.form))
        case WebsocketConfig():
            return _websocket(name, config, signer, listener)
        case HttpConfig():
            from agent.publish.http import HttpPublisher, HttpSettings

            settings = HttpSettings(
                url=NodeUrl.parse(config.url),
                ca_file=config.ca_file,
                connections=config.connections,
                create_streams=config.create_streams,
            )
            return HttpPublisher(name, settings, signer)
        case MqttConfig():
            return build_mqtt_publisher(name, config, config.client_id or signer.address)
    raise TypeError(f"no publisher for {type(config).__name__}")


def _websocket(name: str, config: WebsocketConfig, signer: Signer, listener: "Listener | None") -> Publisher:
    from agent.publish.node_connection import NodeSettings
    from agent.publish.websocket import WebsocketPublisher, WebsocketSettings

    node = NodeSettings(url=NodeUrl.parse(config.url), ca_file=config.ca_file)
    settings = WebsocketSettings(node=node, create_streams=config.create_streams)
    return WebsocketPublisher(name, settings, signer, listener)


def build_mqtt_publisher(name: str, config: MqttConfig, client_id: str) -> Publisher:
    """The one kind that needs no key of the device, so that it may also be tried under another name."""
    from agent.publish.mqtt import MqttPublisher, MqttSettings

    settings = MqttSettings(
        host=config.host,
        port=config.port,
        version=config.version,
        client_id=client_id,
        topic=config.topic,
        payload=config.payload,
        messages_per_publication=config.messages_per_publication,
        username=config.username,
        password_file=config.password_file,
        use_tls=config.use_tls,
        ca_file=config.ca_file,
        certificate_file=config.certificate_file,
        key_file=config.key_file,
    )
    return MqttPublisher(name, settings)
