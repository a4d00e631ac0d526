"""The host names and origins that a web server accepts, against DNS rebinding and cross-site websockets.

A web page elsewhere can reach a server on this machine, or in this network, through the browser of a local user: by a
name of its own that resolves to our address (DNS rebinding), or by a websocket, which browsers open to any address.
Two headers reveal it, and a page cannot forge them: `Host` has the name that the browser requested, `Origin` the site
of the page. Programs other than browsers send no `Origin`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

ANY_ORIGIN: Final = "*"
OWN_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]/@]+)(:[0-9]{1,5})?")
_ADDRESS: Final = re.compile(r"\[[0-9a-f:.]+\]|[0-9]{1,3}(\.[0-9]{1,3}){3}")
_LOOPBACK: Final = re.compile(r"localhost|::1|127(\.[0-9]{1,3}){3}")
_ORIGIN: Final = re.compile(r"([a-z][a-z0-9+.-]*)://([^/@?#\s]+)")
_DEFAULT_PORTS: Final = {"http": ":80", "https": ":443"}


def is_loopback_host(host: str) -> bool:
    """Whether an address to listen on can be reached from this machine only."""
    return _LOOPBACK.fullmatch(host.lower()) is not None


def own_hosts(listen: str, names: Iterable[str] = ()) -> frozenset[str]:
    """The names of a server that listens on this address and also has these names."""
    own = f"[{listen}]" if ":" in listen else listen
    return OWN_NAMES | {own.lower(), *(name.lower() for name in names)}


def is_host_name(text: str) -> bool:
    """Whether a setting names a host, without a port."""
    matched = _HOST.fullmatch(text.lower())
    return matched is not None and matched[2] is None


def is_origin(text: str) -> bool:
    """Whether a setting names an origin, `https://plant.example:8443`, or any."""
    return text == ANY_ORIGIN or _ORIGIN.fullmatch(text.lower()) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownHosts:
    """The names that a server accepts. A numeric address cannot be rebound, so it may be accepted as well."""

    names: frozenset[str]
    accepts_addresses: bool = False

    def knows(self, host: str) -> bool:
        """Whether the value of a `Host` header, with or without a port, is accepted."""
        matched = _HOST.fullmatch(host.lower())
        if matched is None:
            return False
        name = matched[1].rstrip(".")
        return name in self.names or (self.accepts_addresses and _ADDRESS.fullmatch(name) is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origins:
    """The sites whose pages may use a server: those that are allowed, and the server's own."""

    hosts: KnownHosts
    allowed: frozenset[str] = field(default_factory=frozenset)  # in lower case; or `ANY_ORIGIN`

    def allows(self, origin: str | None, host: str) -> bool:
        """By the values of the headers `Origin` (None: not sent) and `Host`."""
        if origin is None or ANY_ORIGIN in self.allowed or origin.lower() in self.allowed:
            return True
        matched = _ORIGIN.fullmatch(origin.lower())
        if matched is None:
            return False
        default_port = _DEFAULT_PORTS.get(matched[1], "")
        is_own = matched[2].removesuffix(default_port) == host.lower().removesuffix(default_port)
        return is_own and self.hosts.knows(host)
