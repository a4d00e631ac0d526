"""The driver to copy: the first number in a file, read at an interval."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drivers.errors import DeviceError
from drivers.polled import PolledDriver
from drivers.reading import Reading, now_ms
from runtime.settings import Seconds, Text, check_settings

MAX_FILE_CHARS: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleSettings:
    file: Path
    quantity: Text
    unit: str = ""
    interval_s: Seconds = 10.0


def build(name: str, settings: Mapping[str, object], path: str = "") -> "ExampleDriver":
    """Check the settings and open nothing. Raises: ConfigError."""
    return ExampleDriver(name, check_settings(ExampleSettings, settings, path))


class ExampleDriver(PolledDriver):
    KIND = "example"

    def __init__(self, name: str, settings: ExampleSettings) -> None:
        super().__init__(name, settings.interval_s)
        self.settings = settings

    async def poll(self) -> list[Reading]:
        value = first_number(self._read_file())
        if value is None:
            raise DeviceError(f"{self.name}: {self.settings.file} holds no number; check that it is the right file")
        return [Reading(self.name, self.settings.quantity, value, self.settings.unit, taken_at_ms=now_ms())]

    def _read_file(self) -> str:
        try:
            with self.settings.file.open(encoding="utf-8", errors="replace") as opened:
                return opened.read(MAX_FILE_CHARS)
        except OSError as error:
            raise DeviceError(
                f"{self.name}: {self.settings.file}: {error.strerror}; check path and permissions"
            ) from error


def first_number(text: str) -> float | None:
    """Pure, so that it can be tested without a file."""
    for word in text.split():
        try:
            number = float(word)
        except ValueError:
            continue
        if abs(number) < float("inf"):  # false for nan, too
            return number
    return None
