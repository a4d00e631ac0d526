"""The publisher for MQTT brokers: QoS 1, version 5 or 3.1.1, with TLS or without. The PUBACK is the proof.

paho does the protocol; its socket is watched by the event loop, so that no thread of its own is needed. Its cost per
publication grows with what is under way, so there are never more than `MAX_WINDOW` publications; what waits is packed,
several messages into one publication, which happens by itself while a backlog is drained.

The session is persistent on the broker's side. On our side every connection begins anew: the journal remembers what
was not acknowledged, and it must not be remembered twice.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from agent.errors import LinkDown, in_words
from agent.journal import Record
from agent.publish.contract import Acknowledged, Outcome, Refused, run_of
from agent.publish.mqtt_payload import PayloadForm, Publication, check_topic_template, pack
from agent.publish.outcome_box import OutcomeBox

__all__ = ["MqttPublisher", "MqttSettings"]

MAX_WINDOW = 100  # publications
MAX_IN_FLIGHT = 1_600  # messages
MAX_PACKED_MESSAGES = 1_000
MAX_PUBLICATION_BYTES = 2 * 1024 * 1024
MISC_INTERVAL_S = 1.0
_PASSING_TROUBLE = (0x80, 0x83, 0x91, 0x97)  # unspecified, implementation specific, packet id in use, quota exceeded
_PACKET_TOO_LARGE = 0x95


@dataclass(frozen=True, slots=True, kw_only=True)
class MqttSettings:
    host: str
    port: int = 1883
    version: Literal["5", "3.1.1"] = "5"
    client_id: str  # the broker knows the session by it
    topic: str = "{stream}"  # may hold {stream}, {partition}, {publisher}, {chain}
    payload: PayloadForm = "stream_message"
    messages_per_publication: int = 64  # at most, and only of what waits; 1: never pack
    username: str | None = None
    password_file: Path | None = None
    use_tls: bool = False
    ca_file: Path | None = None  # None: what the system trusts
    certificate_file: Path | None = None  # our own, where the broker asks for one
    key_file: Path | None = None
    keepalive_s: int = 30
    session_expiry_s: int = 7 * 86_400
    connect_timeout_s: float = 10.0

    def __post_init__(self) -> None:
        check_topic_template(self.topic)
        if not self.client_id:
            raise ValueError("client_id is empty; a persistent session needs one")
        if not 1 <= self.messages_per_publication <= MAX_PACKED_MESSAGES:
            raise ValueError(f"messages_per_publication {self.messages_per_publication} is not in 1..1000")
        if not 5 <= self.keepalive_s <= 65_535:
            raise ValueError(f"keepalive_s {self.keepalive_s} is not within 5..65535")


class _Client(Client):
    """paho, but for two habits: a handshake has its own bound here, and one that fails leaves no socket open."""

    def _ssl_wrap_socket(self, tcp_sock: socket.socket) -> ssl.SSLSocket:
        assert self._ssl_context is not None
        wrapped = self._ssl_context.wrap_socket(tcp_sock, server_hostname=self._host, do_handshake_on_connect=False)
        try:
            wrapped.settimeout(self.connect_timeout)
            wrapped.do_handshake()
        except OSError:
            wrapped.close()
            raise
        return wrapped


class MqttPublisher:
    max_in_flight = MAX_IN_FLIGHT

    def __init__(self, name: str, settings: MqttSettings) -> None:
        self.name = name
        self._settings = settings
        self._link: _Link | None = None

    async def connect(self) -> None:
        await self.close()
        self._link = _Link(self._settings)
        await self._link.open()

    async def send(self, records: Sequence[Record]) -> None:
        await self._require_link().send(records)

    async def outcomes(self) -> Sequence[Outcome]:
        return await self._require_link().box.take()

    async def close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    def _require_link(self) -> "_Link":
        if self._link is None:
            raise LinkDown(f"{_address(self._settings)}: not connected")
        return self._link


class _Link:
    """One connection, its paho client, and the publications on it that wait for their PUBACK."""

    def __init__(self, settings: MqttSettings) -> None:
        self.box = OutcomeBox()
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._client = self._new_client()
        self._connected: asyncio.Future[None] = self._loop.create_future()
        self._waiting: dict[int, Publication] = {}  # by packet id
        self._window = MAX_WINDOW
        self._max_bytes = MAX_PUBLICATION_BYTES
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._misc: asyncio.Task[None] | None = None
        self._is_closed = False

    # --- opening and closing ---

    async def open(self) -> None:
        """Raises: LinkDown."""
        try:
            await asyncio.to_thread(self._connect)
        except (OSError, ValueError) as problem:
            raise self._down(in_words(problem)) from problem
        self._misc = asyncio.create_task(self._keep_alive(), name="mqtt keep-alive")
        await self._connected

    async def close(self) -> None:
        self._is_closed = True
        if self._misc is not None:
            self._misc.cancel()
        with contextlib.suppress(ValueError):
            self._client.disconnect()
        self._client.on_disconnect = None
        self._client._sock_close()  # paho would leave it to its loop, and there is no more loop
        if not self._connected.done():
            self._connected.cancel()

    def _new_client(self) -> Client:
        settings = self._settings
        version = MQTTProtocolVersion.MQTTv5 if settings.version == "5" else MQTTProtocolVersion.MQTTv311
        is_v5 = settings.version == "5"
        client = _Client(
            CallbackAPIVersion.VERSION2, settings.client_id, clean_session=None if is_v5 else False, protocol=version
        )
        client.connect_timeout = settings.connect_timeout_s
        client.max_inflight_messages_set(MAX_WINDOW)
        client.on_connect, client.on_disconnect = self._on_connect, self._on_disconnect
        client.on_publish = self._on_publish
        client.on_socket_open, client.on_socket_close = self._on_socket_open, self._on_socket_close
        client.on_socket_register_write = self._on_register_write
        client.on_socket_unregister_write = self._on_unregister_write
        return client

    def _connect(self) -> None:
        settings = self._settings
        if settings.username is not None:
            self._client.username_pw_set(settings.username, _read_password(settings.password_file))
        if settings.use_tls:
            self._client.tls_set_context(_tls_context(settings))
        more: dict[str, Any] = {}
        if settings.version == "5":
            properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            properties.SessionExpiryInterval = settings.session_expiry_s
            more = {"clean_start": False, "properties": properties}
        self._client.connect(settings.host, settings.port, settings.keepalive_s, **more)
        if self._is_closed:  # nobody waited for it any longer
            self._client._sock_close()

    async def _keep_alive(self) -> None:
        """paho pings, and notices here that a ping was not answered."""
        while True:
            if self._client.loop_misc() != MQTTErrorCode.MQTT_ERR_SUCCESS:
                return
            await asyncio.sleep(MISC_INTERVAL_S)

    # --- publishing ---

    async def send(self, records: Sequence[Record]) -> None:
        self.box.check()
        packed = pack(
            records,
            self._settings.topic,
            self._settings.payload,
            max_messages=self._settings.messages_per_publication,
            max_bytes=self._max_bytes,
        )
        for publication in packed:
            if isinstance(publication, Publication):
                await self._publish(publication)
            else:
                self.box.put(publication)

    async def _publish(self, publication: Publication) -> None:
        await self._has_room.wait()
        self.box.check()
        info = self._client.publish(publication.topic, publication.payload, qos=1)
        if info.rc != MQTTErrorCode.MQTT_ERR_SUCCESS:
            raise self._down(info.rc.name)
        self._waiting[info.mid] = publication
        if len(self._waiting) >= self._window:
            self._has_room.clear()

    # --- what paho tells; always in the event loop's thread but for the two that say otherwise ---

    def _on_connect(
        self, _client: Client, _data: object, _flags: ConnectFlags, reason: ReasonCode, properties: Properties | None
    ) -> None:
        if self._connected.done():
            return
        if reason.is_failure:
            self._connected.set_exception(self._down(f"the broker refuses the connection: {reason}"))
            return
        self._window = min(MAX_WINDOW, getattr(properties, "ReceiveMaximum", MAX_WINDOW))
        self._max_bytes = min(MAX_PUBLICATION_BYTES, getattr(properties, "MaximumPacketSize", MAX_PUBLICATION_BYTES))
        self._connected.set_result(None)

    def _on_disconnect(
        self, _client: Client, _data: object, _flags: DisconnectFlags, reason: ReasonCode, _properties: object
    ) -> None:
        problem = self._down(reason, by_message=reason.value == _PACKET_TOO_LARGE)
        if not self._connected.done():
            self._connected.set_exception(problem)
        self.box.fail(problem)
        self._has_room.set()

    def _on_publish(self, _client: Client, _data: object, mid: int, reason: ReasonCode, _properties: object) -> None:
        publication = self._waiting.pop(mid, None)
        if len(self._waiting) < self._window:
            self._has_room.set()
        if publication is None:
            return
        if not reason.is_failure:
            self.box.put(Acknowledged(*run_of(publication.records)))
        elif reason.value in _PASSING_TROUBLE:
            self.box.fail(self._down(f"the broker does not take messages: {reason}"))
        else:
            problem = f"{_address(self._settings)}: {publication.topic}: {reason}"
            self.box.put(Refused(*run_of(publication.records), problem))

    def _on_socket_open(self, _client: Client, _data: object, sock: Any) -> None:
        """In the thread that connects."""
        self._in_loop(lambda: sock.fileno() >= 0 and self._loop.add_reader(sock.fileno(), self._read, sock))

    def _on_register_write(self, _client: Client, _data: object, sock: Any) -> None:
        """In the thread that connects, or in the loop's."""
        self._in_loop(lambda: sock.fileno() >= 0 and self._loop.add_writer(sock.fileno(), self._client.loop_write))

    def _on_unregister_write(self, _client: Client, _data: object, sock: Any) -> None:
        self._loop.remove_writer(sock.fileno())

    def _on_socket_close(self, _client: Client, _data: object, sock: Any) -> None:
        self._loop.remove_reader(sock.fileno())
        self._loop.remove_writer(sock.fileno())

    def _read(self, sock: Any) -> None:
        """TLS may have decrypted more than was asked for, of which the event loop would never tell."""
        self._client.loop_read()
        while self._settings.use_tls and sock.fileno() >= 0 and sock.pending():
            self._client.loop_read()

    def _in_loop(self, function: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(function)

    def _down(self, problem: object, *, by_message: bool = False) -> LinkDown:
        return LinkDown(f"{_address(self._settings)}: {problem}", by_message=by_message)


def _address(settings: MqttSettings) -> str:
    return f"{'mqtts' if settings.use_tls else 'mqtt'}://{settings.host}:{settings.port}"


def _tls_context(settings: MqttSettings) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=settings.ca_file)
    if settings.certificate_file is not None:
        context.load_cert_chain(settings.certificate_file, settings.key_file)
    return context


def _read_password(path: Path | None) -> str | None:
    return None if path is None else path.read_text(encoding="utf-8").rstrip("\n")
