"""Sensors that the kernel has a driver for: 1-wire thermometers, IIO, hwmon, thermal zones, GPIO and LED states."""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Final, Literal

from drivers.errors import DeviceError
from drivers.polled import BlockingCall, PolledDriver
from drivers.reading import Reading, now_ms
from drivers.sysfs.channels import Channel, channels_of, read_channel
from runtime.settings import NotEmpty, Seconds, check_settings

KernelClass = Literal["w1", "iio", "hwmon", "thermal", "gpio", "leds"]
POLL_TIMEOUT_S: Final = 60.0  # a 1-wire thermometer takes most of a second, and there may be dozens


@dataclass(frozen=True, slots=True, kw_only=True)
class SysfsSettings:
    classes: Annotated[tuple[KernelClass, ...], NotEmpty()]
    sensors: tuple[str, ...] = ("*",)  # which, by name; * and ? stand for anything
    interval_s: Seconds = 30.0
    root: Path = Path("/")  # where /sys of the host is, for a gateway in a container


def build(name: str, settings: Mapping[str, object], path: str = "") -> "SysfsDriver":
    return SysfsDriver(name, check_settings(SysfsSettings, settings, path))


class SysfsDriver(PolledDriver):
    """Lists the sensors at each poll, so that one that is plugged in later is read, too."""

    KIND = "sysfs"

    def __init__(self, name: str, settings: SysfsSettings) -> None:
        super().__init__(name, settings.interval_s)
        self.settings = settings
        self._call = BlockingCall(f"{name}: /sys", POLL_TIMEOUT_S)
        self._silent: set[str] = set()

    @property
    def trouble(self) -> str:
        return f"no answer from {', '.join(sorted(self._silent)[:5])}; check the wiring" if self._silent else ""

    async def poll(self) -> list[Reading]:
        try:
            readings = await self._call.run(self._read_all)
        except OSError as error:  # its directory was removed while it was listed
            raise DeviceError(f"{self.name}: a sensor was removed ({error}); check that it is plugged in") from error
        if not readings:
            raise DeviceError(
                f"{self.name}: no sensor of {', '.join(self.settings.classes)} below {self.settings.root / 'sys'} "
                "answers; check wiring, kernel modules and overlays"
            )
        return readings

    def _read_all(self) -> list[Reading]:
        channels = [channel for name in self.settings.classes for channel in channels_of(name, self.settings.root)]
        selected = [channel for channel in channels if self._is_selected(channel)]
        values = [(channel, read_channel(channel), now_ms()) for channel in selected]
        self._silent = {channel.sensor for channel, value, _ in values if value is None}
        return [
            Reading(channel.sensor, channel.quantity, value, channel.unit, taken_at_ms=at_ms)
            for channel, value, at_ms in values
            if value is not None
        ]

    def _is_selected(self, channel: Channel) -> bool:
        return any(fnmatchcase(channel.sensor, pattern) for pattern in self.settings.sensors)
