"""paho without threads: it receives complete packets from the link, which reads the socket. Only `open` blocks.

By itself, paho reads packets of any announced size, reads the socket three times for each publication, and responds to
packets that no broker sends. Here it receives only packets that `check_packet` accepts, and no publications.
"""

import socket
import ssl
import time
from collections.abc import Collection
from typing import Any, Final

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MessageType, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from runtime.mqtt.packets import PINGRESP, Message, acknowledgements, check_packet, parse_publications
from runtime.mqtt.settings import BrokerSettings
from runtime.private_files import check_private_file, read_secret_text

READ_BYTES: Final = 64 * 1024
_DISCONNECT: Final = b"\xe0\x00"
MAX_UNSENT_PACKETS: Final = 1000  # acknowledgements that the broker does not read


class PacketClient(Client):
    """One connection to a broker, driven by `MqttLink`."""

    def __init__(self, broker: BrokerSettings, *, max_packet_bytes: int, receive_maximum: int) -> None:
        self._is_v5 = broker.version == "5"
        super().__init__(
            CallbackAPIVersion.VERSION2,
            client_id=broker.client_id,
            clean_session=None if self._is_v5 else broker.session_expiry_s == 0,
            protocol=MQTTProtocolVersion.MQTTv5 if self._is_v5 else MQTTProtocolVersion.MQTTv311,
            reconnect_on_failure=False,
        )
        self.max_inflight_messages_set(0)  # the publisher limits the messages in flight
        self.connect_timeout = broker.connect_timeout_s
        self._broker = broker
        self._max_packet_bytes = max_packet_bytes
        self._receive_maximum = receive_maximum
        self._unread = bytearray()  # never more than `max_packet_bytes` and one read
        self._needed_bytes = 0  # until a packet is complete
        self._fed = b""  # the packet that paho reads in place of the socket
        self._has_connack = False
        self._pinged_at_s = 0.0
        self._unanswered_since_s: float | None = None

    def open(self) -> None:
        """Connect; blocks for name resolution, TCP and TLS. Raises: OSError, ValueError, ConfigError."""
        broker = self._broker
        if broker.username:
            self.username_pw_set(
                broker.username, read_secret_text(broker.password_file) if broker.password_file else None
            )
        if broker.tls == "on":
            self.tls_set_context(_tls_context(broker))
        self._pinged_at_s = time.monotonic()
        self.connect(broker.host, broker.port, broker.keepalive_s, **self._connect_options())

    def _connect_options(self) -> dict[str, Any]:
        """The options of version 5: the expiry of the session, and the limits of messages in flight and of packets."""
        if not self._is_v5:
            return {}
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = self._broker.session_expiry_s
        properties.ReceiveMaximum = self._receive_maximum
        properties.MaximumPacketSize = self._max_packet_bytes
        return {"clean_start": self._broker.session_expiry_s == 0, "properties": properties}

    def read(self) -> list[Message]:
        """Read up to `READ_BYTES`. Returns the publications; other packets go to paho's callbacks.

        Raises: ValueError if the broker violates the protocol, ConnectionError at the end.
        """
        received = self._receive()
        if received == b"":
            raise ConnectionError("the broker closed the connection")
        self._unread += received or b""
        messages: list[Message] = []
        while len(self._unread) >= max(self._needed_bytes, 1) and self._sock is not None:
            check_packet(self._unread[0], is_v5=self._is_v5, is_connected=self._has_connack)
            parsed = parse_publications(bytes(self._unread), is_v5=self._is_v5, max_bytes=self._max_packet_bytes)
            messages += parsed.messages
            del self._unread[: parsed.used_bytes]
            if self._unread:
                check_packet(self._unread[0], is_v5=self._is_v5, is_connected=self._has_connack)
            self._needed_bytes = parsed.next_bytes or len(self._unread) + 1
            if 0 < parsed.next_bytes <= len(self._unread):
                self._feed(bytes(self._unread[: parsed.next_bytes]))
                del self._unread[: parsed.next_bytes]
                self._needed_bytes = 0
        return messages

    def acknowledge(self, numbers: Collection[int]) -> None:
        """Queue the acknowledgements as one packet, which paho sends after those queued before.

        Raises: ConnectionError if the broker does not read.
        """
        if len(self._out_packet) > MAX_UNSENT_PACKETS:
            raise ConnectionError("the broker does not read what it is sent")
        self._packet_queue(MessageType.PUBACK, acknowledgements(numbers), 0, 0)

    def keep_alive(self, *, is_reading: bool) -> None:
        """Ping when it is due. To be called about once a second.

        Args:
            is_reading: False while reading is paused, so that the response may be unread.

        Raises: ConnectionError if a ping was not answered.
        """
        now_s, keepalive_s = time.monotonic(), self._shorter_keepalive_s()
        if self._unanswered_since_s is not None and not is_reading:
            self._unanswered_since_s = now_s
        if self._unanswered_since_s is not None and now_s - self._unanswered_since_s >= keepalive_s:
            raise ConnectionError(f"the broker does not answer a ping within {keepalive_s} s")
        if now_s - self._pinged_at_s >= keepalive_s and len(self._out_packet) <= MAX_UNSENT_PACKETS:
            self._pinged_at_s = now_s
            self._unanswered_since_s = self._unanswered_since_s or now_s
            self._send_pingreq()

    def send_disconnect(self) -> None:
        """Queue DISCONNECT. paho's own `disconnect` would close the socket, even with unread data."""
        self._packet_queue(MessageType.PINGREQ, _DISCONNECT, 0, 0)

    def discard(self) -> bool:
        """Read and discard. False at the end of the connection."""
        return self._receive() != b""

    def abandon(self) -> None:
        """Close the socket at once."""
        self.on_disconnect = None
        self._sock_close()

    def _shorter_keepalive_s(self) -> int:
        """The keep-alive of the settings, or a shorter one of the broker."""
        return min(self._keepalive or self._broker.keepalive_s, self._broker.keepalive_s)

    def _receive(self) -> bytes | None:
        """The received bytes; None if there are none now, b"" at the end."""
        try:
            return super()._sock_recv(READ_BYTES)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def _feed(self, packet: bytes) -> None:
        """Let paho handle one packet. Raises ValueError if it cannot."""
        if packet[0] == PINGRESP:
            self._unanswered_since_s = None
        self._fed = packet
        try:
            result = self._packet_read()
        except Exception as error:
            raise ValueError(
                f"a packet of kind 0x{packet[0]:02x} that cannot be decoded ({type(error).__name__})"
            ) from error
        if self._fed:
            raise ValueError(f"a packet of kind 0x{packet[0]:02x} with {len(self._fed)} bytes too many")
        self._has_connack = True
        if result != MQTTErrorCode.MQTT_ERR_SUCCESS and self._sock is not None:
            raise ValueError(f"a packet of kind 0x{packet[0]:02x} that breaks the protocol ({result.name})")

    def _sock_recv(self, bufsize: int) -> bytes:
        """Replaces paho's read from the socket."""
        if not self._fed:
            raise BlockingIOError
        received, self._fed = self._fed[:bufsize], self._fed[bufsize:]
        return received

    def _ssl_wrap_socket(self, tcp_sock: socket.socket) -> ssl.SSLSocket:
        """Like paho's method, but closes the socket if the handshake fails."""
        assert self._ssl_context is not None
        wrapped = self._ssl_context.wrap_socket(tcp_sock, server_hostname=self._host, do_handshake_on_connect=False)
        try:
            wrapped.settimeout(self.connect_timeout)
            wrapped.do_handshake()
        except OSError:
            wrapped.close()
            raise
        return wrapped


def _tls_context(broker: BrokerSettings) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=broker.ca_file)
    if broker.cert_file is not None:
        if broker.key_file is not None:
            check_private_file(broker.key_file)
        context.load_cert_chain(broker.cert_file, broker.key_file)
    return context
