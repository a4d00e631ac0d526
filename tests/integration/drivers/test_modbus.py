"""Against a real pymodbus server, over a pty and over TCP, with mbpoll as a second opinion."""

import asyncio
import contextlib
import re
import socket
import subprocess
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pymodbus.framer import FramerType
from pymodbus.server import ModbusSerialServer, ModbusTcpServer
from pymodbus.simulator import DataType, SimData, SimDevice

from drivers import DeviceError
from drivers.modbus.driver import ModbusDriver, build
from testbed.processes import free_port
from tests.support.joined_ports import joined_ports
from tests.support.patience import PATIENCE_S

BITS = [SimData(0, values=[True, False, True, True, False, False, False, True], datatype=DataType.BITS)]
WORDS = [
    SimData(0, values=230.5, datatype=DataType.FLOAT32),
    SimData(2, values=-1234, datatype=DataType.INT32),
    SimData(4, values=615, datatype=DataType.INT16),
    SimData(5, values=-32768, datatype=DataType.INT16),
    SimData(6, count=4, values=0, datatype=DataType.INT16),
    SimData(100, values=65535, datatype=DataType.UINT16),
]
REGISTERS = [
    {"quantity": "voltage", "address": 0, "type": "float32", "unit": "V"},
    {"quantity": "power", "address": 2, "type": "int32", "unit": "W", "scale": 0.1},
    {"quantity": "temperature", "address": 4, "type": "int16", "unit": "Cel", "scale": 0.1, "offset": -40},
    {"quantity": "broken", "address": 5, "type": "int16", "invalid": -32768},
    {"quantity": "counter", "address": 100, "table": "input"},
    {"quantity": "pump", "address": 2, "table": "coil", "type": "bit"},
    {"quantity": "door", "address": 1, "table": "discrete", "type": "bit"},
]
EXPECTED = {"voltage": 230.5, "power": -123.4, "temperature": 21.5, "counter": 65535, "pump": True, "door": False}


def device() -> SimDevice:
    return SimDevice(id=7, simdata=(BITS, BITS, WORDS, WORDS))


@contextlib.asynccontextmanager
async def tcp_server() -> AsyncIterator[str]:
    port = free_port()
    server = ModbusTcpServer(device(), address=("127.0.0.1", port))
    await server.serve_forever(background=True)
    try:
        yield f"tcp://127.0.0.1:{port}"
    finally:
        await server.shutdown()  # type: ignore[no-untyped-call]


@contextlib.asynccontextmanager
async def rtu_server() -> AsyncIterator[str]:
    with joined_ports() as (ours, theirs):
        server = ModbusSerialServer(device(), framer=FramerType.RTU, port=theirs, baudrate=19200)
        await server.serve_forever(background=True)
        try:
            yield ours
        finally:
            await server.shutdown()  # type: ignore[no-untyped-call]


def driver_of(port: str, **more: Any) -> ModbusDriver:
    table = {"port": port, "device_id": 7, "interval_s": 0.01, "timeout_s": 0.5, "registers": REGISTERS, **more}
    return build("meter", {"baudrate": 19200, **table})


@pytest.mark.parametrize("server", [tcp_server, rtu_server])
def test_every_register_is_read_with_its_type_scale_and_unit(server: Any) -> None:
    async def run() -> None:
        async with server() as port:
            driver = driver_of(port)
            await driver.open()
            found = {reading.quantity: reading for reading in await driver.read()}
            assert {name: reading.value for name, reading in found.items()} == EXPECTED
            assert (found["voltage"].unit, found["power"].unit) == ("V", "W")
            assert len(driver.batches) == 4
            await driver.close()

    asyncio.run(run())


def test_a_register_that_the_device_lacks_is_trouble_and_the_others_are_read() -> None:
    async def run() -> None:
        async with tcp_server() as port:
            wrong = {"quantity": "nothing", "address": 5000, "table": "input"}
            driver = driver_of(port, registers=[*REGISTERS, wrong])
            await driver.open()
            assert {reading.quantity for reading in await driver.read()} == EXPECTED.keys()
            assert "refuses input 5000+1" in driver.trouble
            await driver.close()

    asyncio.run(run())


def test_a_device_that_refuses_everything_is_a_device_error() -> None:
    async def run() -> None:
        async with tcp_server() as port:
            driver = driver_of(port, device_id=9)
            await driver.open()
            with pytest.raises(DeviceError, match=r"meter: .* device 9 refuses .*; check the register map"):
                await driver.read()
            await driver.close()

    asyncio.run(run())


def test_a_device_that_does_not_answer_over_tcp_is_a_device_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        asyncio.run(expect_no_answer(f"tcp://127.0.0.1:{silent.getsockname()[1]}", advice="that the host is reachable"))


def test_a_device_that_does_not_answer_over_a_line_is_a_device_error() -> None:
    with joined_ports() as (ours, _):
        asyncio.run(expect_no_answer(ours, advice="wiring, device_id and baudrate"))


async def expect_no_answer(port: str, advice: str) -> None:
    driver = driver_of(port, timeout_s=0.1, retries=0)
    await driver.open()
    with pytest.raises(DeviceError, match=rf"meter: .* device 7 does not answer; check {advice}"):
        await driver.read()
    await driver.close()


@pytest.mark.needs("mbpoll", "mbpoll")
@pytest.mark.parametrize(
    ("options", "quantity"),
    [
        (["-t", "4:float", "-B", "-r", "0"], "voltage"),
        (["-t", "3", "-r", "100"], "counter"),
        (["-t", "0", "-r", "2"], "pump"),
    ],
)
@pytest.mark.parametrize("server", [tcp_server, rtu_server])
def test_mbpoll_agrees(server: Any, options: list[str], quantity: str) -> None:
    async def run() -> None:
        async with server() as port:
            driver = driver_of(port)
            await driver.open()
            ours = {reading.quantity: reading.value for reading in await driver.read()}
            await driver.close()
            theirs = await asyncio.to_thread(mbpoll, port, options)
            assert theirs == float(ours[quantity])

    asyncio.run(run())


def mbpoll(port: str, options: list[str]) -> float:
    """The one value that mbpoll prints, after its address in brackets."""
    where = ["-m", "rtu", "-b", "19200", "-P", "none", port]
    if port.startswith("tcp:"):
        where = ["-m", "tcp", "-p", port.rpartition(":")[2], "127.0.0.1"]
    command = ["mbpoll", "-a", "7", "-0", "-1", "-c", "1", *options, *where]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    match = re.search(r"^\[\d+\]:\s+([-0-9.]+)", done.stdout, re.MULTILINE)
    assert match, done.stdout
    return float(match[1])
