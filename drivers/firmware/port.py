"""Finds and opens the port of a microcontroller: by name, by USB identity, or by probing."""

import asyncio
import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drivers.byte_source import ByteSource, Throttle, open_serial, open_tcp
from drivers.errors import DeviceError
from drivers.ports import POLL_S, KnownPort
from firmware_bridge import DeviceLink, HostSession
from protocol.link import Feature, Hello

DEFAULT_BAUDRATE: Final = 115_200
DEFAULT_MAX_BYTES_PER_S: Final = 1_000_000
PROBE_S: Final = 3.0  # a board that resets when its port is opened responds by then
PUMP_S: Final = 0.25


class ThrottledPort:
    """A port with a limited read rate; the rest waits in the kernel's buffer."""

    def __init__(self, source: ByteSource, max_bytes_per_s: int) -> None:
        self.where = source.where
        self._source = source
        self._throttle = Throttle(max_bytes_per_s)
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
    """The port of the configured device, also after it was plugged in elsewhere."""

    def __init__(self, configured: str, baudrate: int, max_bytes_per_s: int, root: Path = Path("/")) -> None:
        self._configured = configured
        self._baudrate = baudrate
        self._max_bytes_per_s = max_bytes_per_s
        self._root = root
        self._port = KnownPort(configured, root)
        self._tried: frozenset[tuple[str, int, int]] = frozenset()

    @property
    def device_files(self) -> tuple[str, ...]:
        """As the settings name them; none behind a TCP converter."""
        return self._port.device_files

    async def open(self, session: HostSession) -> tuple[DeviceLink, ThrottledPort]:
        """Raises: DeviceError."""
        if is_pattern(self._configured):
            return await self._open_by_probing(session)
        if self._port.is_tcp:
            return self._begin(await open_tcp(*self._port.host_and_port), session)
        opened = self._begin(open_serial(self._port.find(), baudrate=self._baudrate), session)
        self._port.learn()
        return opened

    async def returned(self) -> None:
        """Wait until the port is present again, or a matching one that was not there at the last try."""
        if not is_pattern(self._configured):
            await self._port.returned()
        while self._nodes() <= self._tried:  # noqa: ASYNC110 - there is no notification; polling is cheap
            await asyncio.sleep(POLL_S)

    async def _open_by_probing(self, session: HostSession) -> tuple[DeviceLink, ThrottledPort]:
        self._tried = self._nodes()
        problems = []
        for device, _, _ in sorted(self._tried):
            try:
                link, port = self._begin(open_serial(device, baudrate=self._baudrate), session)
            except DeviceError as error:
                problems.append(str(error))
                continue
            if await device_answers(link):
                return link, port
            port.close()
            problems.append(f"{device}: {session.problem or 'no answer'}")
        found = "; ".join(problems) or "no such port"
        raise DeviceError(
            f"{self._configured}: the device is on none of these ports ({found}); check that it is plugged in"
        )

    def _begin(self, source: ByteSource, session: HostSession) -> tuple[DeviceLink, ThrottledPort]:
        port = ThrottledPort(source, self._max_bytes_per_s)
        return DeviceLink(port, session), port

    def _nodes(self) -> frozenset[tuple[str, int, int]]:
        """Matching device files; one that was created again differs, even under the same name."""
        return frozenset(_nodes_of(self._root, self._configured.lstrip("/")))


def is_pattern(port: str) -> bool:
    """Whether a port is a pattern of device files."""
    return port.startswith("/") and re.search(r"[*?[]", port) is not None


async def device_answers(
    link: DeviceLink, within_s: float = PROBE_S, is_enough: Callable[[], bool] | None = None
) -> bool:
    """Whether the device behind a link begins a session in time. False if the port fails."""
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
        except OSError:  # it was unplugged meanwhile
            continue
        yield str(path), status.st_ino, status.st_ctime_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Microcontroller:
    """A microcontroller that responded."""

    hello: Hello
    measures: tuple[str, ...] = ()  # "temperature Cel"; empty if it requires a key
    read_by: str = ""  # the agent's driver that has the port open and was queried instead

    @property
    def description(self) -> str:
        summary = f"read by the agent, as driver {self.read_by}" if self.read_by else ", ".join(self.measures)
        summary = summary or ("requires a key" if self.requires_key else "no sensors")
        return f"{self.hello.device_id}, firmware {self.hello.firmware}: {summary}"

    @property
    def requires_key(self) -> bool:
        return Feature.AUTHENTICATED in self.hello.features


def probe_ports(ports: Iterable[str], baudrate: int) -> dict[str, Microcontroller]:
    """The microcontrollers that responded, by port. All ports are probed at once; a port in use is skipped."""

    async def probe_all() -> dict[str, Microcontroller]:
        names = list(ports)
        responses = await asyncio.gather(*(_probe(name, baudrate) for name in names))
        return {name: response for name, response in zip(names, responses, strict=True) if response is not None}

    return asyncio.run(probe_all())


async def _probe(port: str, baudrate: int) -> Microcontroller | None:
    session = HostSession(baudrate=baudrate)
    with contextlib.suppress(DeviceError):
        link, opened = await DevicePort(port, baudrate, DEFAULT_MAX_BYTES_PER_S).open(session)
        try:
            await device_answers(link, is_enough=lambda: session.is_open)
        finally:
            opened.close()
    hello = session.hello or session.refused_hello
    if hello is None:
        return None
    return Microcontroller(
        hello=hello, measures=tuple(f"{each.quantity} {each.unit}".strip() for each in session.sensors)
    )
