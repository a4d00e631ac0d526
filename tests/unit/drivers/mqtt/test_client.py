"""The client over a pair of sockets: what one wake-up reads, and what one commit sends."""

import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import pytest

from drivers.mqtt.client import BulkClient
from drivers.mqtt.mappings import Subscription
from drivers.mqtt.settings import MqttSettings
from tests.unit.drivers.mqtt.test_packets import publication

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
    client: BulkClient
    own: CountingSocket  # the client's
    far: socket.socket  # the broker's


@pytest.fixture
def rig() -> Iterator[Rig]:
    near, far = socket.socketpair()
    own = CountingSocket(fileno=near.detach())
    own.setblocking(False)
    subscription = Subscription(topic="a", quantity="b")
    client = BulkClient("gateway", MqttSettings(host="x", version="3.1.1", subscriptions=(subscription,)))
    client._sock = own  # as after connecting
    with own, far:
        yield Rig(client, own, far)
        client._sock = None


def test_all_publications_that_wait_cost_one_read(rig: Rig) -> None:
    client = rig.client
    rig.far.sendall(b"".join(publication("a", b"%d" % number, number=number) for number in range(1, 301)))
    assert [message.number for message in client.read_all()] == list(range(1, 301))
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
    assert [message.payload for message in client.read_all()] == [b"1", b"2"]
    assert heard == ["connected", "subscribed"]


def test_packets_may_come_byte_by_byte(rig: Rig) -> None:
    client, heard, found = rig.client, [], []
    client.on_connect = lambda *_: heard.append("connected")
    for byte in CONNACK + publication("a", b"x" * 300, number=1):
        rig.far.sendall(bytes([byte]))
        found += client.read_all()
    assert heard == ["connected"]
    assert [message.payload for message in found] == [b"x" * 300]


def test_an_ended_connection_is_told_once_what_came_before_it_is_read(rig: Rig) -> None:
    client, heard = rig.client, []
    client.on_disconnect = lambda *_: heard.append("disconnected")
    rig.far.sendall(publication("a", b"1", number=1) + b"\x32")
    rig.far.shutdown(socket.SHUT_WR)
    assert [message.payload for message in client.read_all()] == [b"1"]
    assert not heard
    assert client.read_all() == []
    assert heard == ["disconnected"]
