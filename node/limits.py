"""Limits of the node: what one client and all clients together may use, and the quotas that enforce it.

Streams, permissions and chains are stored, so they are counted by `Quota` and refused beyond a limit. Each is charged
to a `Holder` twice: to an owner, which is an identity, and to an origin, which is the network address it came from.
New identities cost nothing, so the limit per origin bounds what one machine can do with many of them. Streams that the
configuration declares are not charged.
"""

import sys
from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple

from node.errors import ErrorCode, Refused
from runtime.settings import Positive

MAX_AHEAD_MS: Final = 300_000  # maximum lead of a publisher's clock over the node's


class Holder(NamedTuple):
    """The user that is charged: an address in lower case (empty: anonymous), and its `client_network`."""

    owner: str
    origin: str


NO_HOLDER: Final = Holder("", "")


class QuotaLimits(NamedTuple):
    total: int
    per_owner: int
    per_address: int


NO_LIMITS: Final = QuotaLimits(sys.maxsize, sys.maxsize, sys.maxsize)


Count = Annotated[int, Positive()]
Amount = Annotated[float, Positive()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    max_connections: Count = 1_000
    max_connections_per_address: Count = 500
    max_message_bytes: Count = 1024 * 1024
    max_outgoing_bytes: Count = 2 * 1024 * 1024  # queued for one client; beyond it, the client is dropped
    max_buffered_bytes: Count = 64 * 1024 * 1024  # received in part or not yet sent, of all clients together
    max_subscriptions: Count = 1_000  # of one connection
    max_resends: Count = 10  # running at a time, of one connection
    max_requests_per_s: Count = 5_000  # of one connection, on average; beyond it, the connection is read more slowly
    max_logins_per_s: Amount = 5.0  # of one client network, on average
    max_streams: Count = 10_000
    max_streams_per_owner: Count = 1_000  # created by one identity
    max_streams_per_address: Count = 5_000  # created from one network address
    max_grants: Count = 100_000
    max_grants_per_stream: Count = 1_000
    max_grants_per_owner: Count = 10_000  # on all streams created by one identity
    max_grants_per_address: Count = 50_000  # on all streams created from one network address
    max_chains: Count = 100_000  # with stored messages
    max_chains_per_owner: Count = 10_000  # of one publisher
    max_chains_per_address: Count = 50_000  # begun from one network address
    ping_interval_s: Amount = 60.0
    idle_timeout_s: Amount = 3_600.0
    close_timeout_s: Amount = 10.0  # for a client to read the rest and to close the connection itself
    send_timeout_s: Amount = 60.0  # of a resend to a client that does not read
    request_timeout_s: Amount = 15.0  # from the first byte of an HTTP request to its last
    keep_alive_timeout_s: Amount = 75.0  # between two HTTP requests on one connection

    def quota(self, name: str) -> "Quota":
        """The quota of `streams`, `grants` or `chains`."""
        names = (f"max_{name}", f"max_{name}_per_owner", f"max_{name}_per_address")
        return Quota(name, QuotaLimits(*(getattr(self, each) for each in names)))


class Quota:
    """The count of one resource. `name` is its plural in messages and in the names of settings: `max_<name>`."""

    def __init__(self, name: str, limits: QuotaLimits) -> None:
        self._name = name
        self._limits = limits
        self._owners: Counter[str] = Counter()
        self._origins: Counter[str] = Counter()
        self.total = 0
        self.refused = 0  # since the start

    def check(self, holder: Holder, count: int = 1) -> None:
        """Refuse `count` more of them for this holder beyond a limit. Raises: `Refused`, REQUEST_FAILED."""
        if self.total + count > self._limits.total:
            raise self._refusal("The node", self.total, self._limits.total, f"max_{self._name}")
        if holder.owner and self._owners[holder.owner] + count > self._limits.per_owner:
            used = self._owners[holder.owner]
            raise self._refusal(holder.owner, used, self._limits.per_owner, f"max_{self._name}_per_owner")
        if holder.origin and self._origins[holder.origin] + count > self._limits.per_address:
            used = self._origins[holder.origin]
            user = f"The network address {holder.origin}"
            raise self._refusal(user, used, self._limits.per_address, f"max_{self._name}_per_address")

    def add(self, holder: Holder, count: int = 1) -> None:
        """Charge the holder; a negative count releases."""
        self.total += count
        for counter, key in ((self._owners, holder.owner), (self._origins, holder.origin)):
            if key:
                counter[key] += count
                if counter[key] <= 0:
                    del counter[key]

    def clear(self) -> None:
        self.total = 0
        self._owners.clear()
        self._origins.clear()

    def _refusal(self, user: str, used: int, limit: int, setting: str) -> Refused:
        self.refused += 1
        return Refused(
            ErrorCode.REQUEST_FAILED,
            f"{user} has {used} {self._name} on this node and may have {limit} (limits.{setting});"
            " delete some, or ask the operator of the node to raise the limit",
        )
