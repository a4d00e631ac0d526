"""A serial port that is found again, wherever it is plugged in next."""

import asyncio
from pathlib import Path
from typing import Final

from drivers.errors import DeviceError
from drivers.ports import PortIdentity, find_port, identity_of

__all__ = ["KnownPort"]

LOOK_AGAIN_S: Final = 0.25


class KnownPort:
    """The port of the settings, and the identity it turned out to have."""

    def __init__(self, wanted: str, root: Path = Path("/")) -> None:
        self.wanted = wanted
        self._root = root
        self._identity: PortIdentity | None = None

    @property
    def is_tcp(self) -> bool:
        return self.wanted.startswith("tcp:")

    @property
    def host_and_port(self) -> tuple[str, int]:
        host, _, port = self.wanted.removeprefix("tcp://").rpartition(":")
        return host.strip("[]"), int(port)

    def find(self) -> str:
        """Its device file at this moment. Raises: DeviceError."""
        device = self._look()
        if device is None:
            raise DeviceError(f"{self.wanted} is absent; check that it is plugged in; 'headgate devices' lists what is")
        return device

    def learn(self, device: str) -> None:
        """It opened: from now on it is known by its identity."""
        self._identity = identity_of(device, self._root) or self._identity

    async def returned(self) -> None:
        """Wait until it is back. While it is there (and fails all the same), wait for ever."""
        if self.is_tcp or self._look() is not None:
            await asyncio.Event().wait()
        while self._look() is None:  # noqa: ASYNC110 - nobody tells us; looking is cheap
            await asyncio.sleep(LOOK_AGAIN_S)

    def _look(self) -> str | None:
        return find_port(self.wanted, self._identity, self._root)
