"""The overlay of a node: one port for neighbours, one membership per network, all connected to one hub."""

import asyncio
import ipaddress
import socket
import time
from collections import Counter
from dataclasses import dataclass
from random import Random

from node.errors import ConfigError
from node.hub.hub import Hub
from node.overlay.membership import Membership
from node.overlay.replay import RECENT_S, RecentMessages
from node.peers.dialects import NETWORK_LAYER_PATH, PLAIN_PATH, NetworkLayer, Plain
from node.peers.handshake import Identity, PeerType, check_address, hello_headers
from node.peers.server import PeerServer, shown_address
from node.serialization import Broadcast, readable_broadcasts
from node.storage import Storage
from node.streams import StreamPart
from protocol.errors import WireError


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlaySettings:
    """How a node joins the overlay. `peer_id` and `address` default to the listening address.

    A storage node joins every partition; another node joins those that its clients use.
    """

    tracker_url: str
    address: str | None = None
    peer_id: str | None = None
    peer_type: PeerType = PeerType.STORAGE
    uses_network_layer: bool = False

    def __post_init__(self) -> None:
        for name, url in (("tracker", self.tracker_url), ("address", self.address)):
            try:
                if url is not None:
                    check_address(url)
            except WireError:
                raise ConfigError(f"overlay: {name} {url!r} is not ws://HOST:PORT or wss://HOST:PORT") from None


class Overlay:
    """The overlay of one node. `listener` is the port for neighbours."""

    def __init__(
        self, hub: Hub, storage: Storage, listener: socket.socket, settings: OverlaySettings, *, chance: Random
    ) -> None:
        """Raises: `ConfigError` if other nodes could not reach this node."""
        if settings.address is None and ipaddress.ip_address(listener.getsockname()[0]).is_unspecified:
            raise ConfigError(f"overlay: others cannot connect to {shown_address(listener)}; add --advertise URL")
        self.address = settings.address or f"ws://{shown_address(listener)}"
        self._hub = hub
        self._storage = storage
        self._listener = listener
        self._settings = settings
        self._chance = chance
        self._peer_id = settings.peer_id or self.address
        self._recent = RecentMessages()
        self._memberships: dict[str, Membership] = {}
        self._load_recent()
        hub.listen_to_interest(self._want)
        hub.listen_to_messages(self._forward)

    @property
    def counters(self) -> Counter[str]:
        """The sums of the counters of all memberships."""
        return sum((membership.counters for membership in self._memberships.values()), Counter())

    def _load_recent(self) -> None:
        """Load the messages stored just before the last stop, which may not have been forwarded, for new neighbours."""
        stored = self._storage.latest(int(time.time() - RECENT_S))
        for broadcast in readable_broadcasts(reversed(stored)):
            self._recent.add(broadcast, time.monotonic())

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            for path in (PLAIN_PATH, NETWORK_LAYER_PATH) if self._settings.uses_network_layer else (PLAIN_PATH,):
                self._memberships[path] = self._make_membership(path, group)
            for part in self._hub.subscribed_parts:
                self._want(part, True)
            headers = hello_headers(self._peer_id, self._settings.peer_type)
            endpoints = {path: membership.serve for path, membership in self._memberships.items()}
            async with await PeerServer(headers, endpoints, pages={}).start(self._listener) as running:
                await running.serve_forever()

    def _make_membership(self, path: str, group: asyncio.TaskGroup) -> Membership:
        identity = Identity(peer_id=self._peer_id, address=self.address + path, peer_type=self._settings.peer_type)
        membership = Membership(
            self._hub,
            self._storage,
            self._recent,
            identity,
            tracker_url=self._settings.tracker_url + path,
            make_dialect=Plain if path == PLAIN_PATH else lambda: NetworkLayer(self._peer_id),
            chance=self._chance,
            group=group,
        )
        membership.start()
        return membership

    def _want(self, part: StreamPart, wanted: bool) -> None:
        for membership in self._memberships.values():
            membership.want(part, wanted=wanted)

    def _forward(self, broadcast: Broadcast, source: object) -> None:
        self._recent.add(broadcast, time.monotonic())
        for membership in self._memberships.values():
            membership.forward(broadcast, source)
