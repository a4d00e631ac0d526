"""What systemd is told: that we are ready, alive, or stopping. Without systemd, nothing."""

import os
import socket
from collections.abc import Mapping

_SOCKET_VARIABLE = "NOTIFY_SOCKET"
_WATCHDOG_VARIABLE = "WATCHDOG_USEC"

READY = "READY=1"
ALIVE = "WATCHDOG=1"
STOPPING = "STOPPING=1"


def notify(state: str, environment: Mapping[str, str] = os.environ) -> None:
    """Never waits and never fails: a deaf manager is no reason to stop."""
    address = environment.get(_SOCKET_VARIABLE)
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]  # the abstract namespace
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK) as manager:
        try:
            manager.sendto(state.encode(), address)
        except OSError:
            return


def watchdog_interval_s(environment: Mapping[str, str] = os.environ) -> float | None:
    """How often to say that we are alive: twice in the time the manager waits for it. None: it does not ask."""
    text = environment.get(_WATCHDOG_VARIABLE, "")
    return int(text) / 2_000_000 if text.isdecimal() and int(text) else None
