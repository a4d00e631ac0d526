import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.peers.handshake import Hello, PeerType, check_address, dial_url, hello_headers, read_hello
from protocol.errors import Corrupt

ADDRESS = "ws://10.0.0.7:7072"


def test_what_a_node_says_is_what_the_other_end_reads() -> None:
    url = dial_url("ws://tracker:1", ADDRESS)
    target = url.removeprefix("ws://tracker:1")
    hello = read_hello(target, hello_headers("node-1", PeerType.STORAGE))
    assert hello == Hello(endpoint="", peer_id="node-1", peer_type=PeerType.STORAGE, address=ADDRESS)


@pytest.mark.parametrize("target", ["/network/ws", "/network", "/network/", "/network/ws/"])
def test_the_endpoint_is_the_path_without_what_peers_append(target: str) -> None:
    assert read_hello(target, {"streamr-peer-id": "a"}).endpoint == "/network"


def test_newer_nodes_give_neither_type_nor_address() -> None:
    hello = read_hello("/ws", {"streamr-peer-id": "a"})
    assert (hello.peer_type, hello.address) == (PeerType.NODE, None)


def test_an_address_need_not_be_percent_encoded() -> None:
    headers = {"streamr-peer-id": "a"}
    assert read_hello("/ws?address=ws://h:1", headers) == read_hello("/ws?address=ws%3A%2F%2Fh%3A1", headers)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"streamr-peer-id": ""},
        {"streamr-peer-id": "x" * 513},
        {"streamr-peer-id": "a\x00"},
        {"streamr-peer-id": "a", "streamr-peer-type": "boss"},
    ],
)
def test_a_peer_with_an_invalid_identity_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(Corrupt):
        read_hello("/ws", headers)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "host:1",
        "http://host",
        "ws://",
        "ws://host:99999",
        "ws://host:0",
        "ws://user@host",
        "ws://host?x=1",
        "ws://host#f",
        "ws://[::1",
        "ws://h ost",
        "ws://hôst",
        "ws://" + "h" * 600,
    ],
)
def test_an_address_at_which_no_node_can_be_reached_is_refused(address: str) -> None:
    with pytest.raises(Corrupt, match="an address must be"):
        check_address(address)


def test_addresses_that_differ_in_a_slash_are_one() -> None:
    assert check_address("ws://host:1/network/") == "ws://host:1/network"


@given(st.text(), st.dictionaries(st.sampled_from(["streamr-peer-id", "streamr-peer-type"]), st.text()))
def test_any_handshake_gives_a_hello_or_corrupt(target: str, headers: dict[str, str]) -> None:
    with contextlib.suppress(Corrupt):
        read_hello(target, headers)
