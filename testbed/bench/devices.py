"""Simulated devices that send increasing numbers. Each number is written to a file before it is sent, as evidence.

{"n": 17}\\n      on a serial line: a pty, or a real port
17                by MQTT, QoS 1: what the broker acknowledges is written down too
"""

import asyncio
import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from paho.mqtt.client import Client, MQTTMessageInfo
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode

from testbed.cable import Cable, PtyPort
from testbed.errors import BenchError
from testbed.microcontroller import HostBoard, build_firmware

TICK_S: Final = 0.02
MAX_UNACKNOWLEDGED: Final = 500


LineOf = Callable[[int], bytes]


def count_line(number: int) -> bytes:
    return b'{"n": %d}\n' % number


class CountingDevice(ABC):
    """`run` is one task. `produced` is the last number said."""

    def __init__(self, log: Path, rate_hz: float) -> None:
        self.produced = 0
        self._rate_hz = rate_hz
        self._log = log.open("w", encoding="ascii", buffering=1)

    async def run(self) -> None:
        """For as long as it is let."""
        loop = asyncio.get_running_loop()
        due, before_s = 0.0, loop.time()
        while True:
            await asyncio.sleep(max(TICK_S, 1 / self._rate_hz if self._rate_hz < 1 / TICK_S else 0))
            due = min(
                due + (loop.time() - before_s) * self._rate_hz, self._rate_hz + 1
            )  # it does not catch up for ever
            before_s = loop.time()
            while due >= 1 and self._is_ready():
                due -= 1
                self._next()

    def _next(self) -> None:
        self.produced += 1
        self._log.write(f"{self.produced}\n")
        self._say(self.produced)

    @abstractmethod
    def _is_ready(self) -> bool: ...

    @abstractmethod
    def _say(self, number: int) -> None: ...

    def close(self) -> None:
        self._log.close()


class SerialDevice(CountingDevice):
    """Waits while the line takes nothing, as with flow control; what is on the line when it is pulled is lost."""

    def __init__(self, log: Path, rate_hz: float, port: PtyPort, line_of: LineOf = count_line) -> None:
        """`line_of` makes a line of a number."""
        super().__init__(log, rate_hz)
        self.port = port
        self._line_of = line_of
        self._unsent = b""

    def unplug(self) -> None:
        self.port.unplug()
        self._unsent = b""

    def plug(self) -> None:
        self.port.plug()

    def garble(self, chance: random.Random, count: int) -> None:
        """Noise, as much as the line takes at once, up to the end of a line: then the device goes on as before."""
        self.port.send(chance.randbytes(count) + b"\n")

    def _is_ready(self) -> bool:
        self._unsent = self._unsent[self.port.send(self._unsent) :]
        return not self._unsent

    def _say(self, number: int) -> None:
        line = self._line_of(number)
        self._unsent = line[self.port.send(line) :] if self.port.fd is not None else b""

    def close(self) -> None:
        super().close()
        self.port.unplug()


class RealPortDevice(CountingDevice):
    """Speaks into a real port whose cable leads to the agent's."""

    def __init__(self, log: Path, rate_hz: float, port: str) -> None:
        super().__init__(log, rate_hz)
        self._file = Path(port).open("wb", buffering=0)  # noqa: SIM115 - closed with the device

    def _is_ready(self) -> bool:
        return True

    def _say(self, number: int) -> None:
        self._file.write(count_line(number))

    def close(self) -> None:
        super().close()
        self._file.close()


class Microcontroller:
    """The example firmware on this machine, behind a cable. It needs no log: holes in what it counts show."""

    def __init__(self, folder: Path, name: str, rate_hz: float) -> None:
        """Raises: BenchError where the firmware cannot be built."""
        try:
            program = build_firmware("host", folder / f"{name}.firmware")
        except OSError as error:
            raise BenchError(f"devices.{name}: {error}") from error
        self.link = folder / f"{name}.port"
        self._board = HostBoard(program, device_id=name, options=("--interval-ms", str(round(1000 / rate_hz))))
        self._cable = Cable(self.link, self._board.uart)

    def unplug(self) -> None:
        self._cable.unplug()

    def plug(self) -> None:
        self._cable.plug()

    def silence(self) -> None:
        """It measures no more; what it has not delivered it keeps, and what is on the line is lost to nobody."""
        self._board.pause()

    def speak(self) -> None:
        """Again."""
        self._board.resume()

    def close(self) -> None:
        self._cable.close()
        self._board.kill()


class MqttDevice(CountingDevice):
    """Sends until the broker has acknowledged; `acknowledged` holds those numbers."""

    def __init__(self, name: str, log: Path, rate_hz: float, host: str, port: int) -> None:
        super().__init__(log, rate_hz)
        self.acknowledged: set[int] = set()
        self._topic = mqtt_topic(name)
        self._under_way: deque[tuple[int, MQTTMessageInfo]] = deque()
        self._client = Client(CallbackAPIVersion.VERSION2, client_id=f"device-{name}", clean_session=False)
        self._client.reconnect_delay_set(1, 1)
        self._client.connect_async(host, port)
        self._client.loop_start()

    def _is_ready(self) -> bool:
        self.take_acknowledgements()
        return self._client.is_connected() and len(self._under_way) < MAX_UNACKNOWLEDGED

    def take_acknowledgements(self) -> None:
        """Note what the broker has acknowledged meanwhile."""
        for _ in range(len(self._under_way)):
            number, sent = self._under_way.popleft()
            if sent.is_published():
                self.acknowledged.add(number)
            else:
                self._under_way.append((number, sent))

    def _say(self, number: int) -> None:
        sent = self._client.publish(self._topic, str(number), qos=1)
        if sent.rc == MQTTErrorCode.MQTT_ERR_SUCCESS:  # else nobody will tell whether it arrives
            self._under_way.append((number, sent))

    def close(self) -> None:
        super().close()
        self._client.disconnect()
        self._client.loop_stop()


def mqtt_topic(device: str) -> str:
    return f"bench/{device}/n"
