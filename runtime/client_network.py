"""The unit of limits per network address: an IPv4 address or an IPv6 network."""

import ipaddress
from typing import Final

IPV6_CLIENT_PREFIX: Final = 64  # assigned to one customer, who chooses the rest of the address


def client_network(address: str) -> str:
    """The IPv4 address, the /64 network of an IPv6 address, or the text itself where it is neither."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, IPV6_CLIENT_PREFIX), strict=False))
