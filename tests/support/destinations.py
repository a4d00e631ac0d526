"""What publishers publish to, each as a real program or a real file, with what it received."""

import datetime
import ipaddress
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion

from agent.publish import Publisher
from agent.publish.echoes import EchoSettings
from agent.publish.file import FilePublisher
from agent.publish.http import HttpPublisher
from agent.publish.mqtt import MqttPublisher, MqttSettings
from agent.publish.node_rest import NodeSettings
from agent.publish.node_url import NodeUrl
from agent.publish.websocket import Listener, WebsocketPublisher, WebsocketSettings
from protocol.ethereum.signer import Signer
from protocol.streamr.stream_message import StreamMessage, parse_stream_message
from runtime.mqtt.settings import BrokerSettings
from testbed.mosquitto import Broker
from testbed.processes import HeadgateProcess, free_port
from tests.support.patience import PATIENCE_S
from tests.support.small_client import SmallClient

SIGNER = Signer(b"\x07" * 32)
STREAM = f"{SIGNER.address}/plant/boiler"
MAX_PACKET_BYTES = 50_000  # that our brokers take
DEADLINE_S = 2.0  # within which our publishers must notice that there is no answer


class Destination(ABC):
    """Something to publish to. `port` is 0 where there is no network between."""

    port = 0

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...

    @abstractmethod
    def publisher(self, port: int) -> Publisher:
        """One that reaches it through this port."""

    @abstractmethod
    def received(self, count: int) -> list[dict[str, Any]]:
        """The contents that arrived, in their order, repetitions and all; waits until there are so many different."""

    @abstractmethod
    def spoil(self, message: StreamMessage) -> StreamMessage | bytes:
        """The message, changed so that the destination will refuse it."""


class NodeDestination(Destination):
    def __init__(self, folder: Path, kind: Literal["websocket", "http"], listener: Listener | None = None) -> None:
        self.port = free_port()
        self.url = f"127.0.0.1:{self.port}"
        self._folder = folder
        self._kind = kind
        self._listener = listener
        self._process: HeadgateProcess | None = None

    def start(self) -> None:
        self._process = HeadgateProcess("node", "run", "--listen", self.url, "--data", str(self._folder / "node"))
        try:
            self._process.wait_for(r"node listens; address=(\S+)")
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.close()
            self._process = None

    def publisher(self, port: int) -> Publisher:
        url = NodeUrl.parse(f"http://127.0.0.1:{port}")
        if self._kind == "http":
            return HttpPublisher("http", NodeSettings(url=url, deadline_s=DEADLINE_S), SIGNER)
        settings = WebsocketSettings(
            node=NodeSettings(url=url, deadline_s=DEADLINE_S), echoes=EchoSettings(first_timeout_s=0.3, timeout_s=1)
        )
        return WebsocketPublisher("websocket", settings, SIGNER, self._listener)

    def received(self, count: int) -> list[dict[str, Any]]:  # noqa: ARG002 - it arrived, or was never acknowledged
        client = SmallClient(self.url, SIGNER)
        try:
            return [json.loads(content) for content in client.resend_last(STREAM, 10_000)]
        finally:
            client.close()

    def spoil(self, message: StreamMessage) -> StreamMessage:
        return message.replace(content='{"forged":true}')


class BrokerDestination(Destination):
    def __init__(
        self,
        folder: Path,
        *,
        version: Literal["5", "3.1.1"] = "5",
        use_tls: bool = False,
        more_configuration: str = "",
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._version = version
        self._use_tls = use_tls
        self._folder = folder
        more = f"max_queued_messages 0\nmax_packet_size {MAX_PACKET_BYTES}\n{more_configuration}\n"
        self._broker = Broker(folder, more + self._tls_listener())
        self.port = self._tls_port if use_tls else self._broker.port
        self.subscriber = _Subscriber(self._broker.port)

    def start(self) -> None:
        self._broker.start()
        self.subscriber.start()

    def stop(self) -> None:
        self._broker.stop()

    def close(self) -> None:
        self.subscriber.close()
        self.stop()

    def publisher(self, port: int) -> Publisher:
        return MqttPublisher(
            "mqtt",
            MqttSettings(
                broker=BrokerSettings(
                    host="127.0.0.1",
                    port=port,
                    version=self._version,
                    client_id="device",
                    tls="on" if self._use_tls else "off",
                    ca_file=self._folder / "ca.pem" if self._use_tls else None,
                    connect_timeout_s=DEADLINE_S,
                )
            ),
        )

    def received(self, count: int) -> list[dict[str, Any]]:
        return [json.loads(message.content) for message in self.subscriber.messages(count)]

    def spoil(self, message: StreamMessage) -> StreamMessage:
        """A broker of version 5 says how much it takes; of version 3.1.1 we only know what is no topic."""
        if self._version == "5":
            return message.replace(content=json.dumps("x" * MAX_PACKET_BYTES))
        return message.replace(message_id=message.message_id._replace(stream_id="no+topic"))

    def _tls_listener(self) -> str:
        if not self._use_tls:
            return ""
        self._tls_port = free_port()
        make_certificate(self._folder)
        files = f"cafile {self._folder}/ca.pem\ncertfile {self._folder}/ca.pem\nkeyfile {self._folder}/key.pem"
        return f"listener {self._tls_port} 127.0.0.1\n{files}"


class _Subscriber:
    """Keeps everything the broker passes on, over restarts of the broker."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._payloads: list[bytes] = []
        self._arrived = threading.Condition()
        self._subscribed = threading.Event()
        self._client = Client(CallbackAPIVersion.VERSION2, "reader", clean_session=False)
        self._client.reconnect_delay_set(1, 1)
        self._client.on_connect = self._subscribe
        self._client.on_subscribe = lambda *_: self._subscribed.set()
        self._client.on_message = self._on_message

    def start(self) -> None:
        if not self._subscribed.is_set():
            self._client.connect("127.0.0.1", self._port)
            self._client.loop_start()
            assert self._subscribed.wait(PATIENCE_S)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def payloads(self, count: int) -> list[bytes]:
        with self._arrived:
            self._arrived.wait_for(lambda: len(self._payloads) >= count, PATIENCE_S)
            return list(self._payloads)

    def messages(self, count: int) -> list[StreamMessage]:
        with self._arrived:
            self._arrived.wait_for(lambda: len({m.content for m in self._unpacked()}) >= count, PATIENCE_S)
            return self._unpacked()

    def _unpacked(self) -> list[StreamMessage]:
        return [message for payload in self._payloads for message in _unpack(payload)]

    def _subscribe(self, *_: object) -> None:
        self._client.subscribe("#", qos=1)

    def _on_message(self, _client: Client, _data: object, message: MQTTMessage) -> None:
        with self._arrived:
            self._payloads.append(bytes(message.payload))
            self._arrived.notify_all()


class FileDestination(Destination):
    """It goes away by not being a place where a file can be."""

    def __init__(self, folder: Path, form: Literal["lines", "directory"]) -> None:
        self._folder = folder / "mount"
        self._away = folder / "unmounted"
        self._form = form
        self._folder.mkdir(parents=True)

    @property
    def _path(self) -> Path:
        return self._folder / ("messages.jsonl" if self._form == "lines" else "messages")

    def start(self) -> None:
        if self._away.exists():
            self._folder.unlink()
            self._away.rename(self._folder)

    def stop(self) -> None:
        if not self._away.exists():
            self._folder.rename(self._away)
            self._folder.write_text("nothing is mounted here")

    def publisher(self, port: int) -> Publisher:  # noqa: ARG002 - there is none
        return FilePublisher("file", self._path, self._form)

    def received(self, count: int) -> list[dict[str, Any]]:  # noqa: ARG002 - it arrived, or was never acknowledged
        if self._form == "lines":
            texts: Iterable[bytes] = self._path.read_bytes().splitlines()
        else:
            texts = (path.read_bytes() for path in sorted(self._path.glob("*.json")))
        return [json.loads(parse_stream_message(text).content) for text in texts]

    def spoil(self, message: StreamMessage) -> StreamMessage | bytes:
        return message.serialize().encode().replace(b",", b",\n", 1)


def _unpack(payload: bytes) -> list[StreamMessage]:
    parsed = json.loads(payload)
    several = parsed if isinstance(parsed[0], list) else [parsed]
    return [parse_stream_message(json.dumps(each)) for each in several]


def make_certificate(folder: Path) -> None:
    """`ca.pem` and `key.pem` of a server on this machine that vouches for itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test broker")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "ca.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(key.private_bytes(*form))


MakeDestination = Callable[[Path], Destination]
