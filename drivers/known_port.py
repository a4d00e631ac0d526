"""A serial port that is found again, wherever it is plugged in next."""

import asyncio
from pathlib import Path
from typing import Final, NamedTuple

from drivers.errors import DeviceError
from drivers.ports import PortIdentity, find_port, identity_of

__all__ = ["KnownPort"]

LOOK_AGAIN_S: Final = 0.25


class KnownPort:
    """The port of the settings, and the identity it turned out to have."""

    def __init__(self, wanted: str, root: Path = Path("/")) -> None:
        self.wanted = wanted
        self._root = root
        self._device = wanted
        self._tried: _Node | None = None
        self._identity: PortIdentity | None = None

    @property
    def is_tcp(self) -> bool:
        return self.wanted.startswith("tcp:")

    @property
    def device_files(self) -> tuple[str, ...]:
        """As the settings name it; none behind a TCP converter."""
        return () if self.is_tcp else (self.wanted,)

    @property
    def host_and_port(self) -> tuple[str, int]:
        host, _, port = self.wanted.removeprefix("tcp://").rpartition(":")
        return host.strip("[]"), int(port)

    def find(self) -> str:
        """Its device file at this moment, to be opened. Raises: DeviceError."""
        self._tried = self._look()
        if self._tried is None:
            raise DeviceError(f"{self.wanted} is absent; check that it is plugged in; 'headgate devices' lists what is")
        self._device = self._tried.device
        return str(self._root / self._device.lstrip("/"))

    def learn(self) -> None:
        """It opened: from now on it is known by its identity."""
        self._identity = identity_of(self._device, self._root) or self._identity

    async def returned(self) -> None:
        """Wait until it is there, and not as it was when it was last tried: a port that is there and fails all the same
        is left to the backoff."""
        if self.is_tcp:
            await asyncio.Event().wait()
        while self._look() in (None, self._tried):  # noqa: ASYNC110 - nobody tells us; looking is cheap
            await asyncio.sleep(LOOK_AGAIN_S)

    def _look(self) -> "_Node | None":
        device = find_port(self.wanted, self._identity, self._root)
        try:
            stat = (self._root / device.lstrip("/")).stat() if device else None
        except OSError:  # it left while we looked
            return None
        return _Node(device, stat.st_ino, stat.st_ctime_ns) if device and stat else None


class _Node(NamedTuple):
    """A device file; one that was made anew differs, even under the same name."""

    device: str
    inode: int
    changed_at_ns: int
