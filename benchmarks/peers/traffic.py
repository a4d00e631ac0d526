"""MQTT clients with little overhead: one publishes readings, the other records what arrives."""

import itertools
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

SENSORS = 10
UNACKNOWLEDGED = 2_000
AT_ONCE = 250
CONNECT, CONNACK, PUBLISH, PUBACK, SUBSCRIBE, PINGREQ = 0x10, 0x20, 0x30, 0x40, 0x82, 0xC0
QOS_1 = 0x02
KEEPALIVE_S = 600
TIMEOUT_S = 60


class Arrival(NamedTuple):
    at_s: float  # by `time.monotonic`
    topic: str
    payload: bytes


class Answer(NamedTuple):
    topic: str
    payload: bytes


def reading(number: int) -> bytes:
    """A reading of 52 bytes, different for each number."""
    return b'{"value":%08d,"unit":"Cel","battery":97,"rssi":-61}' % (10_000_000 + number)


class Source:
    """Publishes numbered readings at QoS 1; each number is used once."""

    def __init__(self, port: int) -> None:
        self._connection = _connect(port, "bench-source", is_clean=True)
        self._numbers = itertools.count(1)
        self._packet_ids = itertools.cycle(range(1, 60_000))
        self._unacknowledged_bytes = 0

    def publish(self, root: str, count: int) -> list[int]:
        """Publish readings as fast as possible, until the broker has acknowledged all. Returns their numbers."""
        numbers = list(itertools.islice(self._numbers, count))
        for start in range(0, count, AT_ONCE):
            part = numbers[start : start + AT_ONCE]
            self._connection.sendall(b"".join(self._packet(root, number) for number in part))
            self._unacknowledged_bytes += 4 * len(part)
            self._await_acknowledgements(4 * UNACKNOWLEDGED)
        self._await_acknowledgements(0)
        return numbers

    def close(self) -> None:
        self._connection.close()

    def _packet(self, root: str, number: int) -> bytes:
        topic = f"{root}/s{number % SENSORS}/data".encode()
        body = struct.pack(">H", len(topic)) + topic + struct.pack(">H", next(self._packet_ids)) + reading(number)
        return _packet(PUBLISH | QOS_1, body)

    def _await_acknowledgements(self, allowed_bytes: int) -> None:
        while self._unacknowledged_bytes > allowed_bytes:
            received = self._connection.recv(1 << 16)
            assert received, "the source's broker went away"
            self._unacknowledged_bytes -= len(received)


class Sink:
    """Records everything that a broker receives, over a session that survives outages of the broker."""

    def __init__(self, port: int, answer: Callable[[str], "Answer | None"] = lambda _: None) -> None:
        """`answer` returns the responses of the server that a forwarder expects."""
        self.arrivals: list[Arrival] = []
        self._answer = answer
        self._port = port
        self._is_closed = False
        self._connection = _connect(port, "bench-sink", is_clean=False)
        self._connection.sendall(_packet(SUBSCRIBE, b"\0\1" + _text("#") + b"\1"))
        self._thread = threading.Thread(target=self._run, name="sink", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._is_closed = True
        self._connection.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def _run(self) -> None:
        while not self._is_closed:
            self._receive(self._connection)
            while not self._is_closed:
                try:
                    self._connection = _connect(self._port, "bench-sink", is_clean=False)
                    break
                except OSError:
                    time.sleep(0.01)

    def _receive(self, connection: socket.socket) -> None:
        """Receive until the connection ends."""
        pending = b""
        while data := _received(connection):
            now_s = time.monotonic()
            pending += data
            to_send = []
            at = 0
            while (found := _next_packet(pending, at)) is not None:
                kind, body, at = found
                if kind & 0xF0 == PUBLISH:
                    to_send.append(self._record(kind, body, now_s))
            pending = pending[at:]
            connection.sendall(b"".join(to_send))

    def _record(self, kind: int, body: bytes, now_s: float) -> bytes:
        """Record a message. Returns the bytes to send: its acknowledgement, and a response if it needs one."""
        end = 2 + int.from_bytes(body[:2])
        is_qos_1 = bool(kind & QOS_1)
        topic = body[2:end].decode()
        self.arrivals.append(Arrival(now_s, topic, body[end + 2 * is_qos_1 :]))
        acknowledgement = b"\x40\2" + body[end : end + 2] if is_qos_1 else b""
        answer = self._answer(topic)
        return (
            acknowledgement
            if answer is None
            else acknowledgement + _packet(PUBLISH, _text(answer.topic) + answer.payload)
        )


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1 << 18)
    except OSError:
        return b""


def _next_packet(data: bytes, at: int) -> tuple[int, bytes, int] | None:
    """Type with flags, body, and the start of the next packet; None if the packet is incomplete."""
    length, shift, place = 0, 0, at + 1
    while place < len(data):
        byte = data[place]
        length |= (byte & 0x7F) << shift
        shift += 7
        place += 1
        if byte < 0x80:
            end = place + length
            return (data[at], data[place:end], end) if end <= len(data) else None
    return None


def _connect(port: int, client_id: str, *, is_clean: bool) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
    flags = 0x02 if is_clean else 0x00
    body = _text("MQTT") + bytes([4, flags]) + struct.pack(">H", KEEPALIVE_S) + _text(client_id)
    connection.sendall(_packet(CONNECT, body))
    answer = connection.recv(4)
    if len(answer) < 4 or answer[0] != CONNACK or answer[3]:
        raise ConnectionError(f"the broker answers {answer!r}")
    connection.settimeout(None)
    return connection


def _packet(kind: int, body: bytes) -> bytes:
    length, head = len(body), bytearray([kind])
    while length >= 0x80:
        head.append(length & 0x7F | 0x80)
        length >>= 7
    head.append(length)
    return bytes(head) + body


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()
