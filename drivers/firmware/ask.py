"""Ask who is behind serial ports: open them, begin a session, listen, close them."""

import asyncio
import contextlib
from collections.abc import Iterable
from dataclasses import dataclass

from drivers.errors import DeviceError
from drivers.firmware.port import DEFAULT_MAX_BYTES_PER_S, DevicePort, hears_device
from firmware_bridge import HostSession
from protocol.link import Feature, Hello

__all__ = ["Microcontroller", "ask_ports"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Microcontroller:
    """A device that answered."""

    hello: Hello
    measures: tuple[str, ...] = ()  # "temperature Cel"; empty if it talks only to who has its key
    read_by: str = ""  # the driver of the agent that holds the port, and was asked instead

    @property
    def description(self) -> str:
        told = f"read by the agent, as driver {self.read_by}" if self.read_by else ", ".join(self.measures)
        told = told or ("it wants a key" if self.wants_key else "nothing")
        return f"{self.hello.device_id}, firmware {self.hello.firmware}: {told}"

    @property
    def wants_key(self) -> bool:
        return Feature.AUTHENTICATED in self.hello.features


def ask_ports(ports: Iterable[str], baudrate: int) -> dict[str, Microcontroller]:
    """Those that answered, by port. All are asked at once; who holds a port keeps it."""

    async def ask_all() -> dict[str, Microcontroller]:
        names = list(ports)
        answers = await asyncio.gather(*(_ask(name, baudrate) for name in names))
        return {name: answer for name, answer in zip(names, answers, strict=True) if answer is not None}

    return asyncio.run(ask_all())


async def _ask(port: str, baudrate: int) -> Microcontroller | None:
    session = HostSession(baudrate=baudrate)
    with contextlib.suppress(DeviceError):
        link, opened = await DevicePort(port, baudrate, DEFAULT_MAX_BYTES_PER_S).open(session)
        try:
            await hears_device(link, is_enough=lambda: session.is_open)
        finally:
            opened.close()
    hello = session.hello or session.refused_hello
    if hello is None:
        return None
    return Microcontroller(
        hello=hello, measures=tuple(f"{each.quantity} {each.unit}".strip() for each in session.sensors)
    )
