"""The access policy of the node: which identities may log in, create streams and see the status."""

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated

from node.errors import ErrorCode, Refused
from node.streams import owner_of
from protocol.ethereum.hashing import is_address
from runtime.web_origin import is_host_name, is_origin


class StreamCreation(StrEnum):
    OWN_ADDRESS = "own_address"  # every user that logs in, under their own address: 0x…/any/path
    ANY_ID = "any_id"  # every user that logs in, with any id
    CLOSED = "closed"  # no user: the configuration declares the streams


class Audience(StrEnum):
    """The clients that may see the status page and the metrics."""

    LOOPBACK = "loopback"  # clients on this machine
    PUBLIC = "public"


@dataclass(frozen=True, slots=True)
class Form:
    """A check of a setting by one function."""

    is_good: Callable[[str], bool]
    description: str

    def problem(self, value: str) -> str:
        return "" if self.is_good(value) else f"{value!r:.80} is not {self.description}"


Address = Annotated[str, Form(is_address, "an address")]
HostName = Annotated[str, Form(is_host_name, "a name without a port")]
Origin = Annotated[str, Form(is_origin, "https://HOST[:PORT], or *")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    stream_creation: StreamCreation = StreamCreation.OWN_ADDRESS
    addresses: frozenset[Address] = field(default_factory=frozenset)  # that may log in, in lower case; none: all
    status: Audience = Audience.LOOPBACK
    hosts: frozenset[HostName] = field(default_factory=frozenset)  # names that clients may use for it
    origins: frozenset[Origin] = field(default_factory=frozenset)  # of web pages that may use the node, in lower case

    def in_lower_case(self) -> "Access":
        addresses, hosts, origins = (
            frozenset(map(str.lower, each)) for each in (self.addresses, self.hosts, self.origins)
        )
        return replace(self, addresses=addresses, hosts=hosts, origins=origins)

    def check_login(self, address: str) -> None:
        """Raises: `Refused`, PERMISSION_DENIED."""
        if self.addresses and address.lower() not in self.addresses:
            raise Refused(ErrorCode.PERMISSION_DENIED, f"{address} may not log in to this node")

    def check_creation(self, stream_id: str, user: str) -> None:
        """Raises: `Refused`: AUTHENTICATION_FAILED, PERMISSION_DENIED."""
        if not user:
            raise Refused(ErrorCode.AUTHENTICATION_FAILED, "Log in to create a stream")
        match self.stream_creation:
            case StreamCreation.CLOSED:
                raise Refused(ErrorCode.PERMISSION_DENIED, "Streams cannot be created on this node")
            case StreamCreation.OWN_ADDRESS if owner_of(stream_id) != user:
                raise Refused(
                    ErrorCode.PERMISSION_DENIED, f"The id of a stream that you create must start with {user}/"
                )

    def check_status(self, peer: str) -> None:
        """Raises: `Refused`, PERMISSION_DENIED."""
        if self.status is Audience.LOOPBACK and not _is_loopback(peer):
            raise Refused(ErrorCode.PERMISSION_DENIED, "The status of this node is available only from its own machine")


def _is_loopback(peer: str) -> bool:
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
