"""Reports to systemd that a service is ready, alive, reloading or stopping (sd_notify); without it, does nothing."""

import os
import socket
import time
from collections.abc import Mapping
from typing import Final

READY: Final = "READY=1"
ALIVE: Final = "WATCHDOG=1"
STOPPING: Final = "STOPPING=1"


def reloading() -> str:
    """The state that begins a reload; READY ends it."""
    return f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}"


def notify(state: str, environment: Mapping[str, str] = os.environ) -> None:
    """Send a state to the service manager. Never blocks and never fails, even if the manager is gone."""
    address = environment.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]  # the abstract namespace
    kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    try:
        with socket.socket(socket.AF_UNIX, kind) as manager:
            manager.sendto(state.encode(), address)
    except OSError:
        return


def watchdog_interval_s(environment: Mapping[str, str] = os.environ) -> float | None:
    """How often to report ALIVE: twice in the manager's timeout. None if the manager has no watchdog."""
    text = environment.get("WATCHDOG_USEC", "")
    return int(text) / 2_000_000 if text.isdecimal() and int(text) else None
