"""Counters of the node, shown by `/metrics` and on the status page."""

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    published: int = 0  # accepted messages, without duplicates
    stored: int = 0
    stored_bytes: int = 0  # of the texts, approximately
    delivered: int = 0  # frames with a message, to subscribers
    resent: int = 0  # messages sent for resends
    resends: int = 0  # requests
    duplicates: int = 0
    refused: int = 0  # requests over websocket
    unparsable: int = 0
    storage_failures: int = 0  # messages that could not be stored
    storage_failing: bool = False  # whether the last commit failed
    unsupported: int = 0  # messages that have no form in the versions of a client
    slow_clients_dropped: int = 0
    throttled: int = 0  # how often a connection had to wait
    websocket_connections: int = 0  # now
    http_requests: int = 0
    http_errors: int = 0  # responses of 400 and above
    logins: int = 0
    logins_refused: int = 0
    expired: int = 0  # messages deleted by retention
