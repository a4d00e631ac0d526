"""Opening the port behind which a device is: by name, by USB identity, or by asking who is there."""

import asyncio
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from drivers.byte_source import ByteSource, open_serial, open_tcp
from drivers.errors import DeviceError
from drivers.known_port import LOOK_AGAIN_S, KnownPort
from drivers.pace import Throttle
from firmware_bridge import DeviceLink, HostSession

__all__ = ["DEFAULT_BAUDRATE", "DEFAULT_MAX_BYTES_PER_S", "DevicePort", "ThrottledPort", "hears_device", "is_pattern"]

DEFAULT_BAUDRATE: Final = 115_200
DEFAULT_MAX_BYTES_PER_S: Final = 1_000_000
ASK_S: Final = 3.0  # a board that resets when its port is opened is back by then
PUMP_S: Final = 0.25


class ThrottledPort:
    """A port from which no more is taken than is allowed; the rest waits in the kernel."""

    def __init__(self, source: ByteSource, max_bytes_per_s: int) -> None:
        self.where = source.where
        self._source = source
        self._throttle = Throttle(max_bytes_per_s, asyncio.get_running_loop().time())
        self.write = source.write
        self.close = source.close

    @property
    def is_flooded(self) -> bool:
        return self._throttle.flooded

    async def read(self, timeout_s: float) -> bytes:
        data = await self._source.read(timeout_s)
        await asyncio.sleep(self._throttle.pause_s(len(data), asyncio.get_running_loop().time()))
        return data


class DevicePort:
    """Where the device of the settings is plugged in, now and after it was moved."""

    def __init__(self, wanted: str, baudrate: int, max_bytes_per_s: int, root: Path = Path("/")) -> None:
        self._wanted = wanted
        self._baudrate = baudrate
        self._max_bytes_per_s = max_bytes_per_s
        self._root = root
        self._port = KnownPort(wanted, root)
        self._tried: frozenset[tuple[str, int, int]] = frozenset()

    @property
    def device_files(self) -> tuple[str, ...]:
        """As the settings name them; none behind a TCP converter."""
        return self._port.device_files

    async def open(self, session: HostSession) -> tuple[DeviceLink, ThrottledPort]:
        """Raises: DeviceError."""
        if is_pattern(self._wanted):
            return await self._open_by_asking(session)
        if self._port.is_tcp:
            return self._begin(await open_tcp(*self._port.host_and_port), session)
        opened = self._begin(open_serial(self._port.find(), baudrate=self._baudrate), session)
        self._port.learn()
        return opened

    async def returned(self) -> None:
        """Wait until the port is there again, or one that fits is there that was not when they were tried."""
        if not is_pattern(self._wanted):
            await self._port.returned()
        while self._nodes() <= self._tried:  # noqa: ASYNC110 - nobody tells us; looking is cheap
            await asyncio.sleep(LOOK_AGAIN_S)

    async def _open_by_asking(self, session: HostSession) -> tuple[DeviceLink, ThrottledPort]:
        self._tried = self._nodes()
        problems = []
        for device, _, _ in sorted(self._tried):
            try:
                link, port = self._begin(open_serial(device, baudrate=self._baudrate), session)
            except DeviceError as error:
                problems.append(str(error))
                continue
            if await hears_device(link):
                return link, port
            port.close()
            problems.append(f"{device}: {session.problem or 'nobody answers'}")
        found = "; ".join(problems) or "no such port"
        raise DeviceError(
            f"{self._wanted}: the device is on none of these ports ({found}); check that it is plugged in"
        )

    def _begin(self, source: ByteSource, session: HostSession) -> tuple[DeviceLink, ThrottledPort]:
        port = ThrottledPort(source, self._max_bytes_per_s)
        return DeviceLink(port, session), port

    def _nodes(self) -> frozenset[tuple[str, int, int]]:
        """Device files that fit; one that was made anew differs, even under the same name."""
        return frozenset(_nodes_of(self._root, self._wanted.lstrip("/")))


def is_pattern(port: str) -> bool:
    """Of device files, as for file names."""
    return port.startswith("/") and re.search(r"[*?[]", port) is not None


async def hears_device(link: DeviceLink, within_s: float = ASK_S, is_enough: Callable[[], bool] | None = None) -> bool:
    """Whether the device behind a link begins a session in time. A port that breaks meanwhile answers no."""
    enough = is_enough or (lambda: link.session.hello is not None)
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + within_s
    try:
        while not enough() and loop.time() < deadline_s and not link.session.problem:
            await link.pump(PUMP_S)
    except DeviceError:
        return False
    return enough()


def _nodes_of(root: Path, pattern: str) -> Iterator[tuple[str, int, int]]:
    for path in root.glob(pattern):
        try:
            status = path.stat()
        except OSError:  # it left while we looked
            continue
        yield str(path), status.st_ino, status.st_ctime_ns
