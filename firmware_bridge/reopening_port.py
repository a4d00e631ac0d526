"""A port that comes back: devices with USB of their own take it away when they are reset."""

import asyncio
from collections.abc import Callable
from typing import Final

from firmware_bridge.device_link import BytePort
from protocol.errors import HeadgateError

__all__ = ["ReopeningPort"]

REOPEN_EVERY_S: Final = 0.25


class ReopeningPort:
    """While it is away nothing comes, and what is written is lost, as on a line that is cut."""

    def __init__(self, open_port: Callable[[], BytePort]) -> None:
        """Raises what `open_port` raises: a port that never was there is the operator's affair."""
        self._open_port = open_port
        self._port: BytePort | None = open_port()
        self.problem = ""  # why it is away; "" while it is not

    async def read(self, timeout_s: float) -> bytes:
        if self._port is None and not self._reopen():
            await asyncio.sleep(min(timeout_s, REOPEN_EVERY_S))
            return b""
        try:
            return await self._port.read(timeout_s) if self._port else b""
        except HeadgateError as error:
            self._lose(error)
            return b""

    async def write(self, data: bytes) -> None:
        try:
            if self._port:
                await self._port.write(data)
        except HeadgateError as error:
            self._lose(error)

    def close(self) -> None:
        if self._port:
            self._port.close()
            self._port = None

    def _reopen(self) -> bool:
        try:
            self._port = self._open_port()
        except HeadgateError as error:
            self.problem = str(error)
            return False
        self.problem = ""
        return True

    def _lose(self, error: HeadgateError) -> None:
        self.close()
        self.problem = str(error)
