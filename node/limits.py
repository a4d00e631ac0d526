"""What one client, and all of them together, may ask of the node."""

from dataclasses import dataclass

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    max_connections: int = 1_000
    max_connections_per_address: int = 500
    max_message_bytes: int = 1024 * 1024
    max_outgoing_bytes: int = 2 * 1024 * 1024  # queued for one client; beyond it, the client is dropped
    max_buffered_bytes: int = 64 * 1024 * 1024  # half received and not yet sent, of all clients together
    max_subscriptions: int = 1_000  # of one connection
    max_resends: int = 10  # that one connection may have running
    max_requests_per_s: int = 5_000  # of one connection, on average; beyond it, the connection is read more slowly
    max_logins_per_s: float = 5.0  # of one machine, on average
    max_streams: int = 10_000
    ping_interval_s: float = 60.0
    idle_timeout_s: float = 3_600.0
    send_timeout_s: float = 60.0  # how long a resend waits for a client that takes nothing
    request_timeout_s: float = 15.0  # for the whole of an HTTP request to arrive
    keep_alive_timeout_s: float = 75.0  # between two HTTP requests on one connection
