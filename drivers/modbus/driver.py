"""Modbus devices, RTU over a serial line or TCP, through pymodbus."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from drivers.errors import ConfigError, DeviceError
from drivers.modbus.registers import Batch, Register, plan_batches, read_register
from drivers.polled import PolledDriver
from drivers.ports import KnownPort
from drivers.reading import Reading, now_ms
from drivers.serial_driver import PortName
from runtime.settings import Between, NotEmpty, Seconds, check_settings

if TYPE_CHECKING:
    from pymodbus.client import AsyncModbusSerialClient, AsyncModbusTcpClient

MAX_REGISTERS: Final = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class ModbusSettings:
    port: PortName  # a serial port for RTU, or tcp://host:port
    registers: Annotated[tuple[Register, ...], NotEmpty()]
    device_id: Annotated[int, Between(0, 255)] = 1
    interval_s: Seconds = 10.0
    timeout_s: Seconds = 1.0
    retries: Annotated[int, Between(0, 10)] = 1
    max_gap: Annotated[int, Between(0, 100)] = 8  # unconfigured registers that are read to save a request
    baudrate: Annotated[int, Between(50, 4_000_000)] = 9600
    parity: Literal["N", "E", "O"] = "N"
    stopbits: Literal[1, 2] = 1

    def __post_init__(self) -> None:
        if len(self.registers) > MAX_REGISTERS:
            raise ConfigError(f"registers: {len(self.registers)} are more than {MAX_REGISTERS}")


def build(name: str, settings: Mapping[str, object], path: str = "") -> "ModbusDriver":
    return ModbusDriver(name, check_settings(ModbusSettings, settings, path))


class ModbusDriver(PolledDriver):
    KIND = "modbus"

    def __init__(self, name: str, settings: ModbusSettings, root: Path = Path("/")) -> None:
        super().__init__(name, settings.interval_s)
        self.settings = settings
        self.batches = plan_batches(settings.registers, settings.max_gap)
        self._port = KnownPort(settings.port, root)
        self._client: AsyncModbusSerialClient | AsyncModbusTcpClient | None = None
        self._refused = ""

    @property
    def trouble(self) -> str:
        return self._refused

    @property
    def ports(self) -> tuple[str, ...]:
        return self._port.device_files

    async def connect(self) -> None:
        try:
            self._client = client = self._make_client()
            async with asyncio.timeout(self.settings.timeout_s + 1):
                connected = await client.connect()
        except DeviceError as error:
            raise DeviceError(f"{self.name}: {error}") from error
        except (OSError, TimeoutError) as error:
            raise DeviceError(self._named(f"does not open ({error}); check address and settings")) from error
        if not connected:
            what = "host, port, and that it listens" if self._port.is_tcp else "that it is plugged in and free"
            raise DeviceError(self._named(f"does not open; check {what}"))
        if not self._port.is_tcp:
            self._port.learn()

    async def disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    async def poll(self) -> list[Reading]:
        readings: list[Reading] = []
        self._refused = ""
        for batch in self.batches:
            readings += await self._read_batch(batch)
        if self._refused and not readings:
            raise DeviceError(self._named(self._refused))
        return readings

    async def returned(self) -> None:
        await self._port.returned()

    async def _read_batch(self, batch: Batch) -> list[Reading]:
        words = await self._request(batch)
        if not words:
            return []
        at_ms = now_ms()
        readings: list[Reading] = []
        for register in batch.registers:
            part = _part(batch, register, words)
            value = read_register(register, part)
            if value is not None:
                readings.append(Reading(self.name, register.quantity, value, register.unit, taken_at_ms=at_ms))
            else:
                raw = b"".join(int(word).to_bytes(2) for word in part)
                self.rejects.note(self.name, f"{register.quantity} is marked invalid, or not finite", raw, at_ms)
        return readings

    async def _request(self, batch: Batch) -> list[int]:
        """The words or bits of a batch; none if the device refuses, which is recorded. Raises: DeviceError."""
        from pymodbus.exceptions import ModbusException

        client = self._client
        if client is None:
            raise DeviceError(self._named("is not open; open it before reading"))
        read = {
            "holding": client.read_holding_registers,
            "input": client.read_input_registers,
            "coil": client.read_coils,
            "discrete": client.read_discrete_inputs,
        }[batch.table]
        try:
            response = await read(batch.address, count=batch.count, device_id=self.settings.device_id)
        except (ModbusException, OSError) as error:
            advice = (
                "that the host is reachable, and device_id" if self._port.is_tcp else "wiring, device_id and baudrate"
            )
            raise DeviceError(
                self._named(f"device {self.settings.device_id} does not answer; check {advice}")
            ) from error
        if response.isError():
            self.rejects.note(self.name, f"the device refuses {batch.table} {batch.address}", b"", now_ms())
            self._refused = (
                f"device {self.settings.device_id} refuses {batch.table} {batch.address}"
                f"+{batch.count} (exception {getattr(response, 'exception_code', '?')}); check the register map"
            )
            return []
        found = list(response.bits[: batch.count] if batch.table in ("coil", "discrete") else response.registers)
        if len(found) != batch.count:
            raise DeviceError(
                self._named(f"returned {len(found)} registers instead of {batch.count}; check the device")
            )
        return found

    def _make_client(self) -> "AsyncModbusSerialClient | AsyncModbusTcpClient":
        """Without automatic reconnection: the supervisor of the driver reconnects."""
        from pymodbus.client import AsyncModbusSerialClient, AsyncModbusTcpClient

        logging.getLogger("pymodbus").setLevel(logging.CRITICAL)  # this driver reports problems itself
        settings = self.settings
        if self._port.is_tcp:
            host, tcp_port = self._port.host_and_port
            return AsyncModbusTcpClient(
                host,
                port=tcp_port,
                timeout=settings.timeout_s,
                retries=settings.retries,
                reconnect_delay=0,
            )
        return AsyncModbusSerialClient(
            self._port.find(),
            baudrate=settings.baudrate,
            parity=settings.parity,
            stopbits=settings.stopbits,
            timeout=settings.timeout_s,
            retries=settings.retries,
            reconnect_delay=0,
        )

    def _named(self, problem: str) -> str:
        return f"{self.name}: {self.settings.port} {problem}"


def _part(batch: Batch, register: Register, words: list[int]) -> list[int]:
    start = register.address - batch.address
    return words[start : start + register.width]
