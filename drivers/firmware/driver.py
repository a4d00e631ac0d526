"""Microcontrollers behind the firmware bridge, with the sensors that they describe themselves.

A reading is acknowledged to the device only when it is committed; until then the device stores it and sends it again in
the next session. Each reading's token identifies it for ever, so none is read twice, by this process or the next.
"""

import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from drivers.contract import MAX_READINGS_PER_READ, Driver
from drivers.errors import ConfigError, DeviceError
from drivers.firmware.port import DEFAULT_BAUDRATE, DEFAULT_MAX_BYTES_PER_S, DevicePort, ThrottledPort, is_pattern
from drivers.health import Quality
from drivers.reading import MAX_NAME_CHARS, Reading, now_ms
from drivers.serial_driver import PortName
from firmware_bridge import ConfigError as KeyFileError
from firmware_bridge import (
    DeviceLink,
    DeviceRequests,
    Event,
    HostSession,
    LinkLost,
    LinkUp,
    LogReceived,
    Measured,
    read_clocks,
    read_link_key,
)
from protocol.link import LogLevel
from runtime.settings import Between, Seconds, Text, check_settings, placeholder_problem

IDLE_S: Final = 1.0  # silence of the sensors is no fault; the link itself is watched by its session

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FirmwareSettings:
    port: PortName
    baudrate: Annotated[int, Between(1200, 4_000_000)] = DEFAULT_BAUDRATE
    device_id: str = ""  # accept no other device
    sensor: Text = "{device}/{sensor}"
    key_file: Path | None = None
    silence_s: Seconds = 5.0  # after this time without a session the device is down
    max_bytes_per_s: Annotated[int, Between(100, 10_000_000)] = DEFAULT_MAX_BYTES_PER_S

    def __post_init__(self) -> None:
        problems = []
        if is_pattern(self.port) and not self.device_id:
            problems.append("device_id: missing; required where port is a pattern")
        if problem := placeholder_problem(self.sensor, ("driver", "device", "sensor")):
            problems.append(f"sensor: {problem}")
        if problems:
            raise ConfigError(*problems)


def build(name: str, settings: Mapping[str, object], path: str = "") -> "FirmwareDriver":
    return FirmwareDriver(name, check_settings(FirmwareSettings, settings, path))


class FirmwareDriver(Driver):
    KIND = "firmware"
    HAS_DURABLE_TOKENS = True

    def __init__(
        self,
        name: str,
        settings: FirmwareSettings,
        root: Path = Path("/"),
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(name)
        self.settings = settings
        self.session: HostSession | None = None  # made at the first opening, and used for every later port
        self.quality = Quality()
        self._port = DevicePort(settings.port, settings.baudrate, settings.max_bytes_per_s, root)
        self._log = DeviceLog(name)
        self._clock_s = clock_s
        self._link: DeviceLink | None = None
        self._source: ThrottledPort | None = None
        self._without_session_since_s: float | None = None  # None while there is one
        self._surplus: list[Reading] = []
        self._earlier_tokens: tuple[Collection[int], Collection[int]] = ((), ())
        self._lost_because = ""

    # Status

    @property
    def trouble(self) -> str:
        if self._source is not None and self._source.is_flooded:
            return f"device sends more than {self.settings.max_bytes_per_s} bytes/s; the rest is delayed or lost"
        return self.quality.trouble

    @property
    def ports(self) -> tuple[str, ...]:
        return self._port.device_files

    @property
    def outage(self) -> str:
        since_s = self._without_session_since_s
        if since_s is None or self._clock_s() - since_s < self.settings.silence_s:
            return ""
        problem = (self.session.problem if self.session else "") or self._lost_because
        because = f" ({problem})" if problem else ""
        silence = f"the device does not answer on {self.settings.port} for {self.settings.silence_s:g} s{because}"
        return f"{self.name}: {silence}; check cable, baudrate and firmware"

    @property
    def counters(self) -> Mapping[str, float]:
        if self.session is None:
            return {}
        counted = dataclasses.asdict(self.session.counters)
        clock = self.session.clock
        del counted["last_problem"]
        return {**counted, "drift_ppm": round(clock.drift_ppm, 1), "round_trip_ms": round(clock.round_trip_ms, 1)}

    @property
    def identity(self) -> Mapping[str, str]:
        hello = self.session.hello if self.session is not None else None
        if hello is None or self._source is None:
            return {}
        return {"device": hello.device_id, "firmware": hello.firmware, "port": self._source.where}

    @property
    def questions(self) -> DeviceRequests | None:
        """Requests to the device while it is read; None before the port was first opened."""
        return None if self.session is None else DeviceRequests(self.session, read_clocks, self._flush)

    # The contract

    def recall(self, latest: Collection[int], lost: Collection[int]) -> None:
        self._earlier_tokens = (latest, lost)

    async def open(self) -> None:
        await self.close()
        try:
            self._link, self._source = await self._port.open(self._open_session())
        except DeviceError as error:
            await self.close()
            raise DeviceError(f"{self.name}: {error}") from error
        self._without_session_since_s = self._clock_s()

    async def read(self) -> list[Reading]:
        link = self._opened()
        until_s = self._clock_s() + IDLE_S
        while not self._surplus:
            self._surplus = self._sort(await self._pump(link))
            if self._clock_s() >= until_s and (link.session.is_open or self.outage):
                break
        readings, self._surplus = self._surplus[:MAX_READINGS_PER_READ], self._surplus[MAX_READINGS_PER_READ:]
        return readings

    async def acknowledge(self, tokens: Collection[int]) -> None:
        """If the link is down, the device gets the acknowledgement at the beginning of the next session."""
        if self._link is not None:
            try:
                await self._link.commit(tokens)
            except DeviceError:  # `read` fails in the same way
                return
        elif self.session is not None:
            self.session.received.commit(tokens)

    async def close(self) -> None:
        self._surplus = []
        if self._link is not None:
            self._link.close()
            self._link = self._source = None

    async def returned(self) -> None:
        await self._port.returned()

    # Implementation

    def _open_session(self) -> HostSession:
        """The session, created at the first call. Raises: DeviceError if the key cannot be read."""
        if self.session is None:
            settings = self.settings
            self.session = HostSession(
                baudrate=settings.baudrate, key=self._read_key(), expected_device=settings.device_id
            )
            self.session.received.recall(*self._earlier_tokens)
        return self.session

    def _read_key(self) -> bytes | None:
        if self.settings.key_file is None:
            return None
        try:
            return read_link_key(self.settings.key_file)
        except (KeyFileError, OSError) as error:
            raise DeviceError(f"the key cannot be used: {error}; check key_file") from error

    async def _flush(self) -> None:
        """Errors are left to `read`, which fails likewise; what was not sent is sent again over the next port."""
        if self._link is not None:
            with contextlib.suppress(DeviceError):
                await self._link.flush()

    async def _pump(self, link: DeviceLink) -> list[Event]:
        before = dataclasses.replace(link.session.counters)
        try:
            events = await link.pump(IDLE_S)
        except DeviceError as error:
            raise DeviceError(f"{self.name}: {error}") from error
        self._count_frames(before.frames, before.damaged_frames, link.session)
        return events

    def _count_frames(self, frames: int, damaged_frames: int, session: HostSession) -> None:
        for _ in range(session.counters.frames - frames):
            self.quality.good()
        for _ in range(session.counters.damaged_frames - damaged_frames):
            self.quality.damaged(session.counters.last_problem)
            self.rejects.note(self.name, session.counters.last_problem, b"", now_ms())

    def _sort(self, events: Iterable[Event]) -> list[Reading]:
        readings = []
        for event in events:
            match event:
                case Measured():
                    readings.append(self._reading_of(event))
                case LinkUp():
                    self._note_up(event)
                case LinkLost():
                    self._lost_because = event.reason
                    self._without_session_since_s = self._clock_s()
                case LogReceived():
                    self._log.pass_on(event, self._clock_s())
        return readings

    def _note_up(self, event: LinkUp) -> None:
        self._without_session_since_s = None
        self._lost_because = ""
        if event.is_new_boot:
            hello = event.hello
            log.info(
                "microcontroller connected; driver=%s device=%s firmware=%s sensors=%d commands=%d dropped_records=%d",
                self.name, hello.device_id, hello.firmware, hello.sensors, hello.commands, hello.dropped,
            )  # fmt: skip

    def _reading_of(self, measured: Measured) -> Reading:
        names = {"driver": self.name, "device": measured.device_id, "sensor": measured.sensor.name}
        return Reading(
            self.settings.sensor.format_map(names)[:MAX_NAME_CHARS],
            measured.sensor.quantity,
            measured.value,
            measured.sensor.unit,
            taken_at_ms=measured.taken_at_ms,
            token=measured.token,
        )

    def _opened(self) -> DeviceLink:
        if self._link is None:
            raise DeviceError(f"{self.name}: {self.settings.port} is not open; open it before reading")
        return self._link


MAX_LINES: Final = 60  # in each window
WINDOW_S: Final = 60.0
LEVELS: Final = {
    LogLevel.DEBUG: logging.DEBUG,
    LogLevel.INFO: logging.INFO,
    LogLevel.WARNING: logging.WARNING,
    LogLevel.ERROR: logging.ERROR,
}


class DeviceLog:
    """Writes the log lines of a device to the log, at most `MAX_LINES` per window."""

    def __init__(self, driver: str) -> None:
        self._driver = driver
        self._window_began_s = 0.0
        self._lines = 0

    def pass_on(self, received: LogReceived, now_s: float) -> None:
        if now_s - self._window_began_s >= WINDOW_S:
            self._begin_window(now_s)
        self._lines += 1
        if self._lines > MAX_LINES:
            return
        lost = f" lost_before={received.lost_lines}" if received.lost_lines else ""
        log.log(LEVELS[received.line.level], "device log: %s; driver=%s%s", received.line.text, self._driver, lost)

    def _begin_window(self, now_s: float) -> None:
        if self._lines > MAX_LINES:
            log.warning(
                "device is logging faster than the limit; driver=%s dropped=%d", self._driver, self._lines - MAX_LINES
            )
        self._window_began_s, self._lines = now_s, 0
