"""The client over a pair of sockets: what one wake-up reads, and what one commit sends."""

import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import pytest

from runtime.mqtt.client import MAX_UNSENT_PACKETS, PacketClient
from runtime.mqtt.settings import BrokerSettings
from tests.unit.runtime.mqtt.test_packets import publication

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

CONNACK = b"\x20\x02\0\0"
SUBACK = b"\x90\x03\0\1\1"


class CountingSocket(socket.socket):
    """A real one that counts how often it is asked."""

    receives = 0
    sends = 0

    def recv(self, bufsize: int, flags: int = 0) -> bytes:
        self.receives += 1
        return super().recv(bufsize, flags)

    def send(self, data: "ReadableBuffer", flags: int = 0) -> int:
        self.sends += 1
        return super().send(data, flags)


class Rig(NamedTuple):
    client: PacketClient
    own: CountingSocket  # the client's
    far: socket.socket  # the broker's


@pytest.fixture
def rig() -> Iterator[Rig]:
    near, far = socket.socketpair()
    own = CountingSocket(fileno=near.detach())
    own.setblocking(False)
    broker = BrokerSettings(host="x", port=1, client_id="gateway", version="3.1.1")
    client = PacketClient(broker, max_packet_bytes=1_000_000, receive_maximum=1000)
    client._sock = own  # as after connecting
    with own, far:
        yield Rig(client, own, far)
        client._sock = None


def test_all_publications_that_wait_cost_one_read(rig: Rig) -> None:
    client = rig.client
    client._has_connack = True
    rig.far.sendall(b"".join(publication("a", b"%d" % number, number=number) for number in range(1, 301)))
    assert [message.number for message in client.read()] == list(range(1, 301))
    assert (rig.own.receives, rig.own.sends) == (1, 0)


def test_acknowledgements_of_a_commit_cost_one_send(rig: Rig) -> None:
    client = rig.client
    client.acknowledge(range(1, 251))
    assert len(rig.far.recv(1 << 16)) == 4 * 250
    assert (rig.own.receives, rig.own.sends) == (0, 1)


def test_other_packets_reach_paho_in_their_place(rig: Rig) -> None:
    client, heard = rig.client, []
    client.on_connect = lambda *_: heard.append("connected")
    client.on_subscribe = lambda *_: heard.append("subscribed")
    rig.far.sendall(CONNACK + publication("a", b"1", number=1) + SUBACK + publication("a", b"2", number=2))
    assert [message.payload for message in client.read()] == [b"1", b"2"]
    assert heard == ["connected", "subscribed"]


def test_packets_may_come_byte_by_byte(rig: Rig) -> None:
    client, heard, found = rig.client, [], []
    client.on_connect = lambda *_: heard.append("connected")
    for byte in CONNACK + publication("a", b"x" * 300, number=1):
        rig.far.sendall(bytes([byte]))
        found += client.read()
    assert heard == ["connected"]
    assert [message.payload for message in found] == [b"x" * 300]


def test_what_came_before_the_end_is_read_and_then_the_end_is_reported(rig: Rig) -> None:
    client = rig.client
    rig.far.sendall(CONNACK + publication("a", b"1", number=1) + b"\x32")
    rig.far.shutdown(socket.SHUT_WR)
    assert [message.payload for message in client.read()] == [b"1"]
    with pytest.raises(ConnectionError):
        client.read()


@pytest.mark.parametrize(
    "hostile",
    [
        b"\xe0\x00\xd0\x00",  # DISCONNECT of a broker of version 3.1.1, and one more
        b"\x00\x00\xd0\x00",
        CONNACK,
        b"\x62\x02\0\1",  # PUBREL
        b"\xc0\0",  # PINGREQ
        b"\xd0\1x",
        b"\x40\0",
        b"\x40\1\0",
        b"\x90\0",
    ],
)
def test_what_no_broker_sends_ends_the_connection(rig: Rig, hostile: bytes) -> None:
    rig.far.sendall(CONNACK)
    rig.client.read()
    rig.far.sendall(hostile)
    with pytest.raises(ValueError, match=r"^a (packet|second)"):
        rig.client.read()
    assert rig.own.sends == 0, "nothing is answered"


def test_nothing_is_read_into_memory_that_is_announced_too_large(rig: Rig) -> None:
    rig.far.sendall(CONNACK + b"\x30\xff\xff\xff\x7f")
    with pytest.raises(ValueError, match="a packet of 268435460 bytes; the limit is 1000000"):
        rig.client.read()


def test_a_broker_that_reads_no_acknowledgement_is_given_up(rig: Rig) -> None:
    rig.client.on_socket_register_write = lambda *_: (
        None
    )  # as in the event loop, which is not notified that it may write
    for _ in range(MAX_UNSENT_PACKETS + 1):
        rig.client.acknowledge([1])
    with pytest.raises(ConnectionError, match="does not read"):
        rig.client.acknowledge([1])


def test_a_ping_that_is_not_answered_ends_the_connection_but_for_answers_left_unread_on_purpose(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, now_s = rig.client, 1000.0
    monkeypatch.setattr("runtime.mqtt.client.time.monotonic", lambda: now_s)
    client.keep_alive(is_reading=True)
    assert rig.far.recv(100) == b"\xc0\0"
    for _ in range(10):
        now_s += 29
        client.keep_alive(is_reading=False)
    now_s += 29
    client.keep_alive(is_reading=True)
    now_s += 1
    with pytest.raises(ConnectionError, match="does not answer a ping within 30 s"):
        client.keep_alive(is_reading=True)


def test_a_broker_cannot_turn_the_pings_off(rig: Rig) -> None:
    client = rig.client
    for asked_for_s, kept_s in ((0, 30), (65_535, 30), (5, 5)):
        client._keepalive = asked_for_s
        assert client._shorter_keepalive_s() == kept_s
