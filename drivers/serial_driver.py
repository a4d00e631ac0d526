"""Base of drivers for devices on a serial line or a TCP converter: port, silence, noise, floods, reconnection.

A driver of this family provides a decoder; everything else is here. The decoder is pure: bytes and the time in,
readings and damage out.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Generic, Literal, Protocol, TypeVar

from drivers.byte_source import ByteSource, Throttle, open_serial, open_tcp
from drivers.contract import MAX_READINGS_PER_READ, Driver
from drivers.errors import DeviceError
from drivers.framing import Damaged
from drivers.health import Quality
from drivers.ports import PORT_PATTERN, KnownPort, is_tcp, tcp_address
from drivers.reading import Reading, now_ms
from runtime.settings import Between, HexBytes, Matching, Seconds

PORT_FORM: Final = Matching(PORT_PATTERN, "/dev/serial/by-id/…, usb:0403:6001:SERIAL or tcp://host:port")


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """Checks the host name and port number of a TCP converter."""

    def problem(self, value: str) -> str:
        try:
            if is_tcp(value):
                tcp_address(value)
        except ValueError as error:
            return str(error)
        return ""


PortName = Annotated[str, PORT_FORM, TcpAddress()]


def port_problem(value: str) -> str:
    """The problem of a port given on a command line; "" if there is none."""
    return PORT_FORM.problem(value) or TcpAddress().problem(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class SerialSettings:
    port: PortName
    baudrate: Annotated[int, Between(50, 4_000_000)] = 9600
    bytesize: Literal[7, 8] = 8
    parity: Literal["N", "E", "O"] = "N"
    stopbits: Literal[1, 2] = 1
    silence_s: Seconds = 60.0  # after this time without a reading the device has failed and is opened again
    send_on_open_hex: Annotated[str, HexBytes()] = ""  # bytes that make the device send
    max_bytes_per_s: Annotated[int, Between(100, 10_000_000)] = 100_000  # above this it is throttled


class StreamDecoder(Protocol):
    def feed(self, data: bytes, now_ms: int) -> Sequence[Reading | Damaged]: ...


Decoder = TypeVar("Decoder", bound=StreamDecoder)


class SerialDriver(Driver, Generic[Decoder]):
    def __init__(
        self,
        name: str,
        settings: SerialSettings,
        make_decoder: Callable[[], Decoder],
        root: Path = Path("/"),
    ) -> None:
        super().__init__(name)
        self.settings = settings
        self.quality = Quality()
        self._make_decoder = make_decoder
        self._port = KnownPort(settings.port, root)
        self._source: ByteSource | None = None
        self._decoder = make_decoder()
        self._throttle = Throttle(settings.max_bytes_per_s)
        self._surplus: list[Reading] = []

    @property
    def trouble(self) -> str:
        if self._throttle.flooded:
            return f"device sends more than {self.settings.max_bytes_per_s} bytes/s; the rest is delayed or lost"
        return self.quality.trouble

    @property
    def ports(self) -> tuple[str, ...]:
        return self._port.device_files

    async def open(self) -> None:
        await self.close()
        self._decoder = self._make_decoder()
        self._throttle = Throttle(self.settings.max_bytes_per_s)
        try:
            self._source = await self._open_source()
            await self._source.write(bytes.fromhex(self.settings.send_on_open_hex))
        except DeviceError as error:
            await self.close()
            raise DeviceError(f"{self.name}: {error}") from error

    async def read(self) -> list[Reading]:
        source = self._opened()
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self.settings.silence_s
        while not self._surplus:
            left_s = deadline_s - loop.time()
            if left_s <= 0:
                raise DeviceError(self._silence(source))
            data = await self._read_from(source, left_s)
            await asyncio.sleep(self._throttle.pause_s(len(data), loop.time()))
            self._surplus = self._sort(self._decoder.feed(data, now_ms()))
        readings, self._surplus = self._surplus[:MAX_READINGS_PER_READ], self._surplus[MAX_READINGS_PER_READ:]
        return readings

    async def close(self) -> None:
        self._surplus = []
        if self._source is not None:
            self._source.close()
            self._source = None

    async def returned(self) -> None:
        await self._port.returned()

    async def _open_source(self) -> ByteSource:
        if self._port.is_tcp:
            return await open_tcp(*self._port.host_and_port)
        settings = self.settings
        source = open_serial(
            self._port.find(),
            baudrate=settings.baudrate,
            bytesize=settings.bytesize,
            parity=settings.parity,
            stopbits=settings.stopbits,
        )
        self._port.learn()
        return source

    async def _read_from(self, source: ByteSource, timeout_s: float) -> bytes:
        try:
            return await source.read(timeout_s)
        except DeviceError as error:
            raise DeviceError(f"{self.name}: {error}") from error

    def _sort(self, events: Sequence[Reading | Damaged]) -> list[Reading]:
        readings = []
        for event in events:
            if isinstance(event, Damaged):
                self.quality.damaged(event.problem)
                self.rejects.note(self.name, event.reason or event.problem, event.raw, now_ms())
            else:
                self.quality.good()
                readings.append(event)
        return readings

    def _silence(self, source: ByteSource) -> str:
        noise = f" (damaged data: {self.quality.last_damage})" if self.quality.trouble else ""
        silence = f"no reading on {source.where} for {self.settings.silence_s:g} s{noise}"
        return f"{self.name}: {silence}; check cable and baudrate"

    def _opened(self) -> ByteSource:
        if self._source is None:
            raise DeviceError(f"{self.name}: {self.settings.port} is not open; open it before reading")
        return self._source
