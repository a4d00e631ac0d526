"""What counts as one client."""

import pytest

from runtime.client_network import client_network


@pytest.mark.parametrize(
    ("peer", "origin"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("mqtt", "mqtt"),
    ],
)
def test_a_network_address_is_charged_as_what_one_customer_has(peer: str, origin: str) -> None:
    assert client_network(peer) == origin


def test_one_client_is_an_ipv4_address_or_an_ipv6_network() -> None:
    assert client_network("192.0.2.7") == client_network("::ffff:192.0.2.7") == "192.0.2.7"
    assert client_network("2001:db8::1") == client_network("2001:db8::ffff:2")
    assert client_network("2001:db8::1") != client_network("2001:db8:0:1::1")
    assert client_network("fe80::1%eth0") == client_network("fe80::2")
    assert client_network("") == ""
