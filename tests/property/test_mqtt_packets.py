"""The law of the packet reader: however a broker's bytes are cut up, they give the same messages and the same end."""

from collections.abc import Callable
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.mqtt.client import PacketClient
from runtime.mqtt.packets import Message
from runtime.mqtt.settings import BrokerSettings
from tests.effort import effort
from tests.unit.runtime.mqtt.test_packets import length, publication

MAX_BYTES = 2_000
CONNACK = {True: b"\x20\x03\0\0\0", False: b"\x20\x02\0\0"}


class Pieces(PacketClient):
    """Reads what it is given in place of a socket."""

    def __init__(self, *, is_v5: bool) -> None:
        broker = BrokerSettings(host="x", port=1, client_id="c", version="5" if is_v5 else "3.1.1")
        super().__init__(broker, max_packet_bytes=MAX_BYTES, receive_maximum=10)
        self.piece = b""
        self._sock = object()  # type: ignore[assignment]  # connected

    def _receive(self) -> bytes | None:
        return self.piece

    def _sock_close(self) -> None:
        self._sock = None

    def __del__(self) -> None:
        """There is no socket to close."""


def read_all(data: bytes, cuts: list[int], *, is_v5: bool) -> tuple[list[Message], str]:
    """The messages, and how it ended: "" if it goes on."""
    client, messages = Pieces(is_v5=is_v5), list[Message]()
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for start, end in pairwise(edges):
        client.piece = data[start:end]
        try:
            messages += client.read()
        except ValueError as error:
            return messages, str(error)
        if client.socket() is None:
            return messages, "disconnected"
        assert len(client._unread) <= MAX_BYTES + len(client.piece)
    return messages, ""


PACKETS = st.one_of(
    st.builds(
        lambda payload, number: lambda is_v5: publication("a/b", payload, number=number, is_v5=is_v5),
        st.binary(max_size=300),
        st.integers(0, 65_535),
    ),
    st.sampled_from([b"\xd0\0", b"\x40\2\0\1", b"\x90\4\0\1\0\1", b"\xe0\0"]).map(lambda packet: lambda _: packet),
    st.builds(
        lambda head, body: lambda _: bytes([head]) + length(len(body)) + body,
        st.integers(0, 255),
        st.binary(max_size=40),
    ),
    st.binary(max_size=20).map(lambda noise: lambda _: noise),
)


@settings(max_examples=effort(test=60, soak=100_000), deadline=None)
@given(st.lists(PACKETS, max_size=8), st.lists(st.integers(0, 3000), max_size=12), st.booleans(), st.booleans())
def test_bytes_cut_anywhere_give_the_same_messages_and_the_same_end(
    packets: list[Callable[[bool], bytes]], cuts: list[int], is_v5: bool, is_greeted: bool
) -> None:
    data = (CONNACK[is_v5] if is_greeted else b"") + b"".join(packet(is_v5) for packet in packets)
    whole, end = read_all(data, [], is_v5=is_v5)
    cut, cut_end = read_all(data, cuts, is_v5=is_v5)
    single, single_end = read_all(data, list(range(len(data))), is_v5=is_v5)
    if not end:
        assert cut == single == whole
        assert not cut_end
        assert not single_end
    else:  # what came before the end may have been given already, or is sent again by the broker
        assert single[: len(cut)] == cut or cut[: len(single)] == single
        assert cut_end
        assert single_end
