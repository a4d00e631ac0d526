"""Telling systemd how the node is, where systemd started it: `Type=notify`, and its watchdog."""

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Final

__all__ = ["notify", "pat_watchdog_forever"]

PATS_PER_TIMEOUT: Final = 3


def notify(state: str) -> None:
    """Say something like READY=1; nothing happens where nobody listens."""
    path = os.environ.get("NOTIFY_SOCKET")
    if not path:
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.connect(address)
        channel.sendall(state.encode())


async def pat_watchdog_forever(is_well: Callable[[], bool]) -> None:
    """Tell the watchdog that all is well, as long as it is. Without a watchdog, this only waits."""
    timeout_us = os.environ.get("WATCHDOG_USEC", "")
    if not timeout_us.isdecimal():
        await asyncio.Event().wait()
    while True:
        if is_well():
            notify("WATCHDOG=1")
        await asyncio.sleep(int(timeout_us) / 1e6 / PATS_PER_TIMEOUT)
