"""The handshake of nodes and trackers: identity, type and address of the peer, exchanged in headers.

The peer id is in the header `streamr-peer-id`, in both directions. Up to release 22 there is the header
`streamr-peer-type`, too, and the node that connects gives the address at which others reach it: `/ws?address=ws://host:port`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import parse_qs, quote, urlsplit

from protocol.errors import Corrupt

MAX_PEER_ID_LENGTH: Final = 512
MAX_ADDRESS_LENGTH: Final = 512
MAX_QUERY_FIELDS: Final = 20
PEER_ID: Final = "streamr-peer-id"
PEER_TYPE: Final = "streamr-peer-type"
_WEBSOCKET_SUFFIX: Final = "/ws"


class PeerType(StrEnum):
    TRACKER = "tracker"
    NODE = "node"
    STORAGE = "storage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The identity that a peer sends when it connects. `endpoint` is the path without the `/ws` that peers append."""

    endpoint: str
    peer_id: str
    peer_type: PeerType
    address: str | None


def read_hello(target: str, headers: Mapping[str, str]) -> Hello:
    """Raises: `Corrupt`. Header names are in lower case."""
    path, _, query = target.partition("?")
    try:
        fields = parse_qs(query, max_num_fields=MAX_QUERY_FIELDS)
        peer_type = PeerType(headers.get(PEER_TYPE, PeerType.NODE))
    except ValueError as problem:
        raise Corrupt(f"handshake: {problem}") from None
    address = fields.get("address", [None])[0]
    return Hello(
        endpoint=path.rstrip("/").removesuffix(_WEBSOCKET_SUFFIX).rstrip("/"),
        peer_id=read_peer_id(headers),
        peer_type=peer_type,
        address=None if address is None else check_address(address),
    )


def read_peer_id(headers: Mapping[str, str]) -> str:
    """Raises: `Corrupt`."""
    peer_id = headers.get(PEER_ID, "")
    if not peer_id or len(peer_id) > MAX_PEER_ID_LENGTH or not peer_id.isprintable():
        raise Corrupt(f"handshake: header {PEER_ID} must hold 1 to {MAX_PEER_ID_LENGTH} printable characters")
    return peer_id


def check_address(address: str) -> str:
    """Returns the address, without a slash at its end, if a node can be reached at it. Raises: `Corrupt`."""
    problem = (
        f"handshake: an address must be ws://HOST:PORT or wss://HOST:PORT of up to {MAX_ADDRESS_LENGTH} characters"
    )
    if len(address) > MAX_ADDRESS_LENGTH or not address.isascii() or not address.isprintable() or " " in address:
        raise Corrupt(problem)
    try:
        parts = urlsplit(address)
        is_reachable = bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise Corrupt(problem) from None
    if parts.scheme not in ("ws", "wss") or not is_reachable or parts.query or parts.fragment or "@" in parts.netloc:
        raise Corrupt(problem)
    return address.rstrip("/")


def dial_url(address: str, own_address: str) -> str:
    """The URL to connect to, with the node's own address in the query."""
    return f"{address}{_WEBSOCKET_SUFFIX}?address={quote(own_address, safe=':/[]')}"


def hello_headers(peer_id: str, peer_type: PeerType) -> dict[str, str]:
    return {PEER_ID: peer_id, PEER_TYPE: peer_type}


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    peer_id: str
    address: str
    peer_type: PeerType
