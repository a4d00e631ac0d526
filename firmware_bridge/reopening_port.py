"""A port that comes back: a device with USB of its own takes it away when it is reset."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from firmware_bridge.device_link import BytePort
from protocol.errors import HeadgateError

__all__ = ["ReopeningPort"]

REOPEN_EVERY_S: Final = 0.25


class ReopeningPort:
    """While it is away nothing comes, and what is written is lost, as on a line that is cut."""

    def __init__(self, port: BytePort, open_port: Callable[[], Awaitable[BytePort]]) -> None:
        """`port` is open; `open_port` opens it again."""
        self._port: BytePort | None = port
        self._open_port = open_port

    async def read(self, timeout_s: float) -> bytes:
        try:
            if self._port is None:
                self._port = await self._open_port()
            return await self._port.read(timeout_s)
        except HeadgateError:
            self.close()
            await asyncio.sleep(min(timeout_s, REOPEN_EVERY_S))
            return b""

    async def write(self, data: bytes) -> None:
        try:
            if self._port is not None:
                await self._port.write(data)
        except HeadgateError:
            self.close()

    def close(self) -> None:
        if self._port is not None:
            self._port.close()
            self._port = None
