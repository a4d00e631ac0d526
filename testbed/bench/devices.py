"""Simulated devices that send increasing numbers. Each number is written to a file before it is sent, as evidence.

{"n": 17}\\n      on a serial line: a pty, or a real port
17                by MQTT, QoS 1: the acknowledged numbers are recorded too
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


def count_line(number: int) -> bytes:
    return b'{"n": %d}\n' % number


class CountingDevice(ABC):
    """Sends the numbers 1, 2, 3 …; `produced` is the last one sent."""

    def __init__(self, log: Path, rate_hz: float) -> None:
        self.produced = 0
        self._rate_hz = rate_hz
        self._log = log.open("w", encoding="ascii", buffering=1)

    async def run(self) -> None:
        """Send numbers until cancelled."""
        loop = asyncio.get_running_loop()
        due, before_s = 0.0, loop.time()
        while True:
            await asyncio.sleep(max(TICK_S, 1 / self._rate_hz if self._rate_hz < 1 / TICK_S else 0))
            due += (loop.time() - before_s) * self._rate_hz
            due = min(due, self._rate_hz + 1)  # it catches up for one second at most
            before_s = loop.time()
            while due >= 1 and self._is_ready():
                due -= 1
                self._next()

    def _next(self) -> None:
        self.produced += 1
        self._log.write(f"{self.produced}\n")
        self._send(self.produced)

    @abstractmethod
    def _is_ready(self) -> bool: ...

    @abstractmethod
    def _send(self, number: int) -> None: ...

    def close(self) -> None:
        self._log.close()


class SerialDevice(CountingDevice):
    """Waits while the line is full, as with flow control. Bytes on the line are lost when it is unplugged."""

    def __init__(self, log: Path, rate_hz: float, port: PtyPort, line_of: Callable[[int], bytes] = count_line) -> None:
        """`line_of` formats a number as a line."""
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
        """Send noise and the end of a line, after which the device continues as before."""
        self.port.send(chance.randbytes(count) + b"\n")

    def _is_ready(self) -> bool:
        self._unsent = self._unsent[self.port.send(self._unsent) :]
        return not self._unsent

    def _send(self, number: int) -> None:
        line = self._line_of(number)
        self._unsent = line[self.port.send(line) :] if self.port.fd is not None else b""

    def close(self) -> None:
        super().close()
        self.port.unplug()


class RealPortDevice(CountingDevice):
    """Sends to a real port that is connected to the agent's port."""

    def __init__(self, log: Path, rate_hz: float, port: str) -> None:
        super().__init__(log, rate_hz)
        self._file = Path(port).open("wb", buffering=0)  # noqa: SIM115 - closed with the device

    def _is_ready(self) -> bool:
        return True

    def _send(self, number: int) -> None:
        self._file.write(count_line(number))

    def close(self) -> None:
        super().close()
        self._file.close()


class Microcontroller:
    """The example firmware on this machine, behind a cable. It needs no log, because it numbers its measurements."""

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

    def pause(self) -> None:
        """Stop measuring. It holds what is not acknowledged yet."""
        self._board.pause()

    def resume(self) -> None:
        self._board.resume()

    def close(self) -> None:
        self._cable.close()
        self._board.kill()


class MqttDevice(CountingDevice):
    """Publishes at QoS 1; `acknowledged` holds the numbers that the broker has acknowledged."""

    def __init__(self, name: str, log: Path, rate_hz: float, host: str, port: int) -> None:
        super().__init__(log, rate_hz)
        self.acknowledged: set[int] = set()
        self._topic = mqtt_topic(name)
        self._in_flight: deque[tuple[int, MQTTMessageInfo]] = deque()
        self._client = Client(CallbackAPIVersion.VERSION2, client_id=f"device-{name}", clean_session=False)
        self._client.reconnect_delay_set(1, 1)
        self._client.connect_async(host, port)
        self._client.loop_start()

    def _is_ready(self) -> bool:
        self.read_acknowledgements()
        return self._client.is_connected() and len(self._in_flight) < MAX_UNACKNOWLEDGED

    def read_acknowledgements(self) -> None:
        """Record the numbers that the broker has acknowledged meanwhile."""
        for _ in range(len(self._in_flight)):
            number, sent = self._in_flight.popleft()
            if sent.is_published():
                self.acknowledged.add(number)
            else:
                self._in_flight.append((number, sent))

    def _send(self, number: int) -> None:
        sent = self._client.publish(self._topic, str(number), qos=1)
        if sent.rc == MQTTErrorCode.MQTT_ERR_SUCCESS:  # otherwise there will be no acknowledgement
            self._in_flight.append((number, sent))

    def close(self) -> None:
        super().close()
        self._client.disconnect()
        self._client.loop_stop()


def mqtt_topic(device: str) -> str:
    return f"bench/{device}/n"
