"""For tools at the terminal: open a port that the agent does not hold, and talk to the device behind it."""

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

from drivers.firmware.port import DevicePort
from firmware_bridge import DeviceLink, Event, HostSession, read_link_key

__all__ = ["DEFAULT_BAUDRATE", "connected"]

DEFAULT_BAUDRATE: Final = 115_200
MAX_BYTES_PER_S: Final = 1_000_000


@contextlib.asynccontextmanager
async def connected(
    port: str,
    *,
    baudrate: int = DEFAULT_BAUDRATE,
    key_file: Path | None = None,
    device_id: str = "",
    timeout_s: float = 10.0,
    on_event: Callable[[Event], None] = lambda _: None,
) -> AsyncIterator[DeviceLink]:
    """A session with the device, pumped for as long as the block lasts. What it measures is not acknowledged, and stays
    with it.

    Raises: DeviceError, LinkDown, ConfigError, OSError.
    """
    key = read_link_key(key_file) if key_file is not None else None
    session = HostSession(baudrate=baudrate, key=key, wanted_device=device_id)
    link, opened = await DevicePort(port, baudrate, MAX_BYTES_PER_S).open(session)
    try:
        async with link.pumping(on_event):
            await link.opened(timeout_s)
            yield link
    finally:
        opened.close()
