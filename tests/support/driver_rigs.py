"""One rig per driver: the surroundings in which it works, and how to break and repair them."""

import asyncio
import contextlib
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar

from pymodbus.server import ModbusTcpServer
from pymodbus.simulator import DataType, SimData, SimDevice

from drivers import Driver, build_driver
from testbed.cable import PtyPort
from testbed.processes import free_port
from tests.support.brokers import Broker
from tests.support.driver_samples import PMS5003_FRAME, nmea, write_tree
from tests.support.model_device import ModelDevice


class Rig(ABC):
    """`break_it` makes opening fail, and reading too; `repair` ends that. `speak` is called while a test waits."""

    bad_settings: ClassVar[dict[str, Any]] = {"interval_s": "often", "colour": "red"}
    opens_while_broken = False  # nothing to open: only reading fails

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]: ...

    @abstractmethod
    async def break_it(self) -> None: ...

    @abstractmethod
    async def repair(self) -> None: ...

    async def speak(self) -> None:  # noqa: B027 - many are asked, and need not speak
        pass

    async def set_up(self) -> None:
        await self.repair()

    async def tear_down(self) -> None:  # noqa: B027 - many leave nothing behind
        pass

    def build(self) -> Driver:
        return build_driver("rig", self.settings)

    @contextlib.asynccontextmanager
    async def speaking(self) -> AsyncIterator[None]:
        """The device says something every few milliseconds."""

        async def go_on() -> None:
            while True:
                await self.speak()
                await asyncio.sleep(0.01)

        task = asyncio.create_task(go_on())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class ExampleRig(Rig):
    opens_while_broken = True

    @property
    def settings(self) -> dict[str, Any]:
        return {"driver": "example", "file": str(self.folder / "number"), "quantity": "x", "interval_s": 0.01}

    async def break_it(self) -> None:
        (self.folder / "number").unlink()

    async def repair(self) -> None:
        (self.folder / "number").write_text("21.5 and more\n")


class SimulatedRig(Rig):
    bad_settings: ClassVar[dict[str, Any]] = {"rate_hz": 0, "signals": [{"kind": "square", "quantity": ""}]}

    @property
    def settings(self) -> dict[str, Any]:
        signals = [{"kind": "diurnal", "quantity": "temperature"}, {"kind": "switch", "quantity": "pump"}]
        return {"driver": "simulated", "rate_hz": 100, "signals": signals, "fault_file": str(self.folder / "fault")}

    async def break_it(self) -> None:
        (self.folder / "fault").write_text("unplug")

    async def repair(self) -> None:
        (self.folder / "fault").unlink(missing_ok=True)


class SystemRig(Rig):
    TREE: ClassVar = {
        "proc/stat": "cpu  100 0 100 800 0 0 0 0 0 0\n",
        "proc/meminfo": "MemTotal: 1000 kB\nMemAvailable: 250 kB\n",
        "proc/loadavg": "0.5 0.4 0.3 1/100 1000\n",
        "proc/uptime": "1000.5 900\n",
        "sys/class/thermal/thermal_zone0/temp": "48312\n",
    }

    @property
    def settings(self) -> dict[str, Any]:
        return {"driver": "system", "interval_s": 0.01, "root": str(self.folder / "root")}

    async def break_it(self) -> None:
        shutil.rmtree(self.folder / "root")

    async def repair(self) -> None:
        write_tree(self.folder / "root", self.TREE)


class SysfsRig(Rig):
    opens_while_broken = True

    @property
    def settings(self) -> dict[str, Any]:
        return {"driver": "sysfs", "classes": ["w1"], "interval_s": 0.01, "root": str(self.folder / "root")}

    async def break_it(self) -> None:
        shutil.rmtree(self.folder / "root")

    async def repair(self) -> None:
        write_tree(self.folder / "root", {"sys/bus/w1/devices/28-0316a279f1ff/temperature": "21437\n"})


class SerialRig(Rig):
    bad_settings: ClassVar[dict[str, Any]] = {"port": "ttyUSB0", "baudrate": "fast", "partiy": "E"}
    SENTENCE: ClassVar[bytes]
    MORE: ClassVar[dict[str, Any]]

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.cable = PtyPort(folder / "port")

    @property
    def settings(self) -> dict[str, Any]:
        return {"port": str(self.cable.link), "silence_s": 0.5, **self.MORE}

    async def break_it(self) -> None:
        self.cable.unplug()

    async def repair(self) -> None:
        self.cable.plug()

    async def speak(self) -> None:
        self.cable.send(self.SENTENCE)

    async def tear_down(self) -> None:
        self.cable.unplug()


class SerialLineRig(SerialRig):
    SENTENCE = b"21.5,40\n"
    MORE: ClassVar = {
        "driver": "serial_line",
        "format": "csv",
        "columns": ["temperature", "humidity"],
        "quantities": {"temperature": {"unit": "Cel"}, "humidity": {"unit": "%"}},
    }


class NmeaRig(SerialRig):
    SENTENCE = nmea("GPRMC,123519.00,A,4807.038,N,01131.000,E,022.4,084.4,230325,,")
    MORE: ClassVar = {"driver": "nmea", "interval_s": 0}


class Pms5003Rig(SerialRig):
    SENTENCE = PMS5003_FRAME
    MORE: ClassVar = {"driver": "pms5003", "interval_s": 0}


class FirmwareRig(SerialRig):
    """A device in Python; the real firmware has its own tests."""

    bad_settings: ClassVar[dict[str, Any]] = {"port": "ttyACM0", "baudrate": "fast", "device": "x"}
    MORE: ClassVar = {"driver": "firmware"}

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.device = ModelDevice()

    async def speak(self) -> None:
        now_ms = time.monotonic() * 1000
        self.device.receive(self.cable.received(), now_ms)
        self.device.tick(now_ms)
        if len(self.device.queue) < 10:
            self.device.measure(2150, now_ms)
        self.cable.send(self.device.take_output())


class ModbusRig(Rig):
    bad_settings: ClassVar[dict[str, Any]] = {"port": "tcp://x:1", "registers": [{"address": 70000, "type": "uint8"}]}

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.port = free_port()
        self._server: ModbusTcpServer | None = None

    @property
    def settings(self) -> dict[str, Any]:
        registers = [{"quantity": "power", "address": 4, "type": "int16", "unit": "W"}]
        url = f"tcp://127.0.0.1:{self.port}"
        return {
            "driver": "modbus",
            "port": url,
            "interval_s": 0.01,
            "timeout_s": 0.2,
            "retries": 0,
            "registers": registers,
        }

    async def repair(self) -> None:
        if self._server is None:
            device = SimDevice(id=1, simdata=[SimData(0, count=20, values=7, datatype=DataType.INT16)])
            self._server = ModbusTcpServer(device, address=("127.0.0.1", self.port))
            await self._server.serve_forever(background=True)

    async def break_it(self) -> None:
        if self._server is not None:
            await self._server.shutdown()  # type: ignore[no-untyped-call]
            self._server = None

    async def tear_down(self) -> None:
        await self.break_it()


class MqttRig(Rig):
    bad_settings: ClassVar[dict[str, Any]] = {"host": "", "port": 0, "presets": ["tasmoto"]}

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.broker = Broker(folder)
        self._number = 0

    @property
    def settings(self) -> dict[str, Any]:
        subscriptions = [{"topic": "plant/{sensor}/{quantity}"}]
        return {"driver": "mqtt", "host": "127.0.0.1", "port": self.broker.port, "subscriptions": subscriptions}

    async def speak(self) -> None:
        self._number += 1
        message = ("plant/boiler/temperature", b"%d" % self._number)
        with contextlib.suppress(OSError, RuntimeError):  # while the broker is away
            await asyncio.to_thread(self.broker.publish, message, qos=0, timeout_s=0.2)
        await asyncio.sleep(0.05)

    async def repair(self) -> None:
        await asyncio.to_thread(self.broker.start)

    async def break_it(self) -> None:
        await asyncio.to_thread(self.broker.stop)

    async def tear_down(self) -> None:
        await self.break_it()


RIGS: dict[str, type[Rig]] = {
    "example": ExampleRig,
    "firmware": FirmwareRig,
    "modbus": ModbusRig,
    "mqtt": MqttRig,
    "nmea": NmeaRig,
    "pms5003": Pms5003Rig,
    "serial_line": SerialLineRig,
    "simulated": SimulatedRig,
    "sysfs": SysfsRig,
    "system": SystemRig,
}


def fd_count() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
