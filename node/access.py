"""Who may log in, and who may make which streams: the node's policy, apart from the permissions on each stream."""

import ipaddress
from dataclasses import dataclass, field
from enum import StrEnum

from node.errors import ErrorCode, Refused
from node.streams import owner_of

__all__ = ["Access", "Audience", "StreamCreation"]


class StreamCreation(StrEnum):
    OWN_ADDRESS = "own_address"  # anybody who logs in, under their own address: 0x…/what/ever
    ANY_ID = "any_id"  # anybody who logs in, whatever the id
    CLOSED = "closed"  # nobody: the configuration names the streams


class Audience(StrEnum):
    """Who may see the status page and the metrics."""

    LOOPBACK = "loopback"  # whoever is on this machine
    EVERYBODY = "everybody"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    stream_creation: StreamCreation = StreamCreation.OWN_ADDRESS
    addresses: frozenset[str] = field(default_factory=frozenset)  # who may log in, in lower case; none: everybody
    status: Audience = Audience.LOOPBACK

    def check_login(self, address: str) -> None:
        """Raises: `Refused`, PERMISSION_DENIED."""
        if self.addresses and address.lower() not in self.addresses:
            raise Refused(ErrorCode.PERMISSION_DENIED, f"{address} may not log in to this node")

    def check_creation(self, stream_id: str, user: str) -> None:
        """Raises: `Refused`: AUTHENTICATION_FAILED, PERMISSION_DENIED."""
        if not user:
            raise Refused(ErrorCode.AUTHENTICATION_FAILED, "Log in to make a stream")
        match self.stream_creation:
            case StreamCreation.CLOSED:
                raise Refused(ErrorCode.PERMISSION_DENIED, "No streams can be made on this node")
            case StreamCreation.OWN_ADDRESS if owner_of(stream_id) != user:
                raise Refused(ErrorCode.PERMISSION_DENIED, f"A stream of yours has an id that starts with {user}/")

    def check_status(self, peer: str) -> None:
        """Raises: `Refused`, PERMISSION_DENIED."""
        if self.status is Audience.LOOPBACK and not _is_loopback(peer):
            raise Refused(ErrorCode.PERMISSION_DENIED, "The status of this node is shown on its own machine only")


def _is_loopback(peer: str) -> bool:
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
