"""paho without threads, given whole packets by the link that reads its socket. Blocking only in `open`.

Left alone paho reads whatever size a broker announces, asks the socket three times for each publication, and answers
packets that no broker sends. Here it sees only what `check_packet` lets through, and no publication.
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

from runtime.mqtt.packets import PINGRESP, Message, acknowledgements, check_packet, take_publications
from runtime.mqtt.settings import BrokerSettings
from runtime.private_files import check_private_file, read_secret_text

READ_BYTES: Final = 64 * 1024
_DISCONNECT: Final = b"\xe0\x00"
MAX_UNSENT_PACKETS: Final = 1000  # acknowledgements that the broker does not read


class PacketClient(Client):
    """One connection to a broker, driven from outside."""

    def __init__(self, broker: BrokerSettings, *, max_packet_bytes: int, receive_maximum: int) -> None:
        self._is_v5 = broker.version == "5"
        super().__init__(
            CallbackAPIVersion.VERSION2,
            client_id=broker.client_id,
            clean_session=None if self._is_v5 else broker.session_expiry_s == 0,
            protocol=MQTTProtocolVersion.MQTTv5 if self._is_v5 else MQTTProtocolVersion.MQTTv311,
            reconnect_on_failure=False,
        )
        self.max_inflight_messages_set(0)  # the publisher limits what is under way
        self.connect_timeout = broker.connect_timeout_s
        self._broker = broker
        self._max_packet_bytes = max_packet_bytes
        self._receive_maximum = receive_maximum
        self._unread = bytearray()  # never more than `max_packet_bytes` and one read
        self._needed_bytes = 0  # before there is a whole packet
        self._fed = b""  # what paho takes for the socket: one packet
        self._has_connack = False
        self._pinged_at_s = 0.0
        self._unanswered_since_s: float | None = None

    def open(self) -> None:
        """Blocks for name look-up, TCP and TLS. Raises: OSError, ValueError, ConfigError."""
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
        """What only version 5 knows: how long the session lives, and how much may be under way."""
        if not self._is_v5:
            return {}
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = self._broker.session_expiry_s
        properties.ReceiveMaximum = self._receive_maximum
        properties.MaximumPacketSize = self._max_packet_bytes
        return {"clean_start": self._broker.session_expiry_s == 0, "properties": properties}

    def read(self) -> list[Message]:
        """Read what is there, up to `READ_BYTES`: publications are given, the rest goes to paho's callbacks.

        Raises: ValueError where the broker does not speak MQTT as it was agreed on, ConnectionError at the end.
        """
        received = self._receive()
        if received == b"":
            raise ConnectionError("the broker closed the connection")
        self._unread += received or b""
        messages: list[Message] = []
        while len(self._unread) >= max(self._needed_bytes, 1) and self._sock is not None:
            check_packet(self._unread[0], is_v5=self._is_v5, is_connected=self._has_connack)
            taken = take_publications(bytes(self._unread), is_v5=self._is_v5, max_bytes=self._max_packet_bytes)
            messages += taken.messages
            del self._unread[: taken.used_bytes]
            if self._unread:
                check_packet(self._unread[0], is_v5=self._is_v5, is_connected=self._has_connack)
            self._needed_bytes = taken.next_bytes or len(self._unread) + 1
            if 0 < taken.next_bytes <= len(self._unread):
                self._feed(bytes(self._unread[: taken.next_bytes]))
                del self._unread[: taken.next_bytes]
                self._needed_bytes = 0
        return messages

    def acknowledge(self, numbers: Collection[int]) -> None:
        """All in one piece. paho sends it when the socket takes it, behind whatever else it has to send.

        Raises: ConnectionError if the broker reads none of it.
        """
        if len(self._out_packet) > MAX_UNSENT_PACKETS:
            raise ConnectionError("the broker does not read what it is sent")
        self._packet_queue(MessageType.PUBACK, acknowledgements(numbers), 0, 0)

    def keep_alive(self, *, is_reading: bool) -> None:
        """Ping when it is due. To be called about once a second.

        Args:
            is_reading: False while nothing is read on purpose, so that an answer may wait unread.

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

    def say_goodbye(self) -> None:
        """Under another name than paho's: that would close the socket behind it, whatever is unread there."""
        self._packet_queue(MessageType.PINGREQ, _DISCONNECT, 0, 0)

    def discard(self) -> bool:
        """Read, and throw away. False at the end of the connection."""
        return self._receive() != b""

    def abandon(self) -> None:
        """Close the socket as it is."""
        self.on_disconnect = None
        self._sock_close()

    def _shorter_keepalive_s(self) -> int:
        """The broker may ask for a shorter one. That it asks for a longer one, or none, is no reason to wait longer."""
        return min(self._keepalive or self._broker.keepalive_s, self._broker.keepalive_s)

    def _receive(self) -> bytes | None:
        """None if there is nothing now, b"" at the end."""
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
                f"a packet of kind 0x{packet[0]:02x} that makes no sense ({type(error).__name__})"
            ) from error
        if self._fed:
            raise ValueError(f"a packet of kind 0x{packet[0]:02x} of which {len(self._fed)} bytes are too many")
        self._has_connack = True
        if result != MQTTErrorCode.MQTT_ERR_SUCCESS and self._sock is not None:
            raise ValueError(f"a packet of kind 0x{packet[0]:02x} that breaks the protocol ({result.name})")

    def _sock_recv(self, bufsize: int) -> bytes:
        """What paho takes for the socket."""
        if not self._fed:
            raise BlockingIOError
        received, self._fed = self._fed[:bufsize], self._fed[bufsize:]
        return received

    def _ssl_wrap_socket(self, tcp_sock: socket.socket) -> ssl.SSLSocket:
        """As paho does it, but a handshake that fails leaves no socket open."""
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
