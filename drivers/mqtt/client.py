"""paho, as this driver uses it: without threads, and with its socket's bytes handed to it by whoever reads them.

paho makes the connection, its TLS and its session, subscribes, and keeps the link alive. Left alone it would ask the
socket three times for each publication and write each acknowledgement by itself; that costs several times what the
reading is worth, so the many are taken apart and acknowledged in bulk (`drivers/mqtt/packets.py`).
"""

from collections.abc import Collection
from typing import Any, Final

from paho.mqtt.client import Client, MQTTv5, MQTTv311
from paho.mqtt.enums import CallbackAPIVersion, MessageType
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from drivers.mqtt.ledger import MAX_UNACKNOWLEDGED, Message
from drivers.mqtt.packets import MAX_PACKET_BYTES, acknowledgements, take_publications
from drivers.mqtt.settings import MqttSettings

__all__ = ["BulkClient"]

READ_BYTES: Final = 64 * 1024


class BulkClient(Client):
    """One connection to a broker, driven from outside."""

    def __init__(self, name: str, settings: MqttSettings) -> None:
        """Raises OSError if a file cannot be read."""
        self._is_v5 = settings.version == "5"
        super().__init__(
            CallbackAPIVersion.VERSION2,
            client_id=settings.client_id or f"headgate-{name}",
            clean_session=None if self._is_v5 else settings.session_expiry_s == 0,
            protocol=MQTTv5 if self._is_v5 else MQTTv311,
            reconnect_on_failure=False,
        )
        self._settings = settings
        self._unread = bytearray()
        self._needed_bytes = 0  # before there is a whole packet
        self._is_at_end = False
        self.connect_timeout = settings.connect_timeout_s
        if settings.username:
            self.username_pw_set(settings.username, _password(settings))
        if settings.tls == "on":
            ca, certificate, key = (str(file) if file else None for file in _tls_files(settings))
            self.tls_set(ca, certificate, key)

    def open(self) -> None:
        """Blocks for name look-up, TCP and TLS. Raises: OSError, ValueError."""
        settings = self._settings
        self.connect(settings.host, settings.port, settings.keepalive_s, **_connect_options(settings))

    def read_all(self) -> list[Message]:
        """Read what is there, up to `READ_BYTES`: publications are given, the rest goes to paho's callbacks.

        Raises ValueError where the broker does not speak MQTT as it was agreed on.
        """
        self._fill()
        messages: list[Message] = []
        while len(self._unread) >= max(self._needed_bytes, 1):
            taken = take_publications(bytes(self._unread), is_v5=self._is_v5)
            messages += taken.messages
            del self._unread[: taken.used_bytes]
            self._needed_bytes = taken.next_bytes or len(self._unread) + 1
            if 0 < taken.next_bytes <= len(self._unread):
                self._needed_bytes = 0
                self.loop_read()
        if self._is_at_end:
            self.loop_read()  # which meets the end, and tells
        return messages

    def acknowledge(self, numbers: Collection[int]) -> None:
        """All in one piece. paho sends it when the socket takes it, behind whatever else it has to send."""
        self._packet_queue(MessageType.PUBACK, acknowledgements(numbers), 0, 0)

    def _fill(self) -> None:
        try:
            received = super()._sock_recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        self._unread += received
        self._is_at_end = not received

    def _sock_recv(self, bufsize: int) -> bytes:
        """What paho takes for the socket."""
        if not self._unread and not self._is_at_end:
            raise BlockingIOError
        received = bytes(self._unread[:bufsize])
        del self._unread[:bufsize]
        return received


def _connect_options(settings: MqttSettings) -> dict[str, Any]:
    """What only version 5 knows: how long the session lives, and how much may be under way."""
    if settings.version != "5":
        return {}
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    properties.SessionExpiryInterval = settings.session_expiry_s
    properties.ReceiveMaximum = MAX_UNACKNOWLEDGED
    properties.MaximumPacketSize = MAX_PACKET_BYTES
    return {"clean_start": False, "properties": properties}


def _tls_files(settings: MqttSettings) -> tuple[Any, Any, Any]:
    return settings.ca_file, settings.cert_file, settings.key_file


def _password(settings: MqttSettings) -> str | None:
    return settings.password_file.read_text(encoding="utf-8").strip() if settings.password_file else None
