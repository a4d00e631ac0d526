"""The table of drivers, each imported on use, with the README, sample and settings of each."""

import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol, cast

from drivers.contract import Driver
from drivers.errors import ConfigError
from drivers.reading import MAX_NAME_CHARS
from runtime.settings import Between, check_settings
from runtime.toml_file import dotted

if TYPE_CHECKING:
    from collections.abc import Callable

DRIVERS: Final = {
    "example": "drivers.example.driver",
    "firmware": "drivers.firmware.driver",
    "modbus": "drivers.modbus.driver",
    "mqtt": "drivers.mqtt.driver",
    "nmea": "drivers.nmea.driver",
    "pms5003": "drivers.pms5003.driver",
    "serial_line": "drivers.serial_line.driver",
    "simulated": "drivers.simulated.driver",
    "sysfs": "drivers.sysfs.driver",
    "system": "drivers.system.driver",
}


# Their `silence_s` concerns the port: after this time without data it is reopened.
WITH_OWN_SILENCE: Final = frozenset({"firmware", "nmea", "pms5003", "serial_line", "simulated"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonSettings:
    """Settings that every other driver has beside its own."""

    silence_s: Annotated[float, Between(0, 86_400 * 366)] | None = None  # none: learned from its intervals; 0: never


class DriverModule(Protocol):
    def build(self, name: str, settings: Mapping[str, object], path: str) -> Driver: ...


def build_driver(name: str, table: Mapping[str, object], path: str = "") -> Driver:
    """The driver of the table `[drivers.NAME]`, built by the kind in `driver`; checked, nothing opened.

    Raises: ConfigError, with every problem of the table under its dotted path (default: `drivers.NAME`).
    """
    path = path or dotted("drivers", name)
    if not 0 < len(name) <= MAX_NAME_CHARS:
        raise ConfigError(f"{path[:MAX_NAME_CHARS]}: a driver's name has 1 to {MAX_NAME_CHARS} characters")
    settings = dict(table)
    kind = settings.pop("driver", None)
    if not isinstance(kind, str) or kind not in DRIVERS:
        raise ConfigError(f"{path}.driver: {no_such_driver(kind)}")
    module = cast("DriverModule", importlib.import_module(DRIVERS[kind]))
    if kind in WITH_OWN_SILENCE:
        return module.build(name, settings, path)
    common = {"silence_s": settings.pop("silence_s")} if "silence_s" in settings else {}
    problems: list[str] = []
    try:
        silence_s = check_settings(CommonSettings, common, path).silence_s
    except ConfigError as error:
        problems += error.problems
    try:
        driver = module.build(name, settings, path)
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError(*problems)
    driver.silence_s = silence_s
    return driver


def no_such_driver(kind: object) -> str:
    known = ", ".join(DRIVERS)
    if not isinstance(kind, str):
        return f"missing; it is one of {known}"
    import difflib

    close = difflib.get_close_matches(kind, DRIVERS, n=1)
    return f"{kind!r:.40} is not a driver; " + (f"did you mean {close[0]}?" if close else f"there are {known}")


def readme_summary(kind: str) -> str:
    """The first paragraph of its README, as plain text. Raises: ConfigError if there is no such driver."""
    text = (_folder(kind) / "README.md").read_text(encoding="utf-8")
    without_links = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text.split("\n\n")[1])
    return " ".join(without_links.replace("`", "").split())


def sample_of(kind: str) -> str:
    """A table to begin with: `##` explains, a single `#` shows a setting at its default. Raises: ConfigError."""
    return (_folder(kind) / "sample.toml").read_text(encoding="utf-8")


def schema_of(kind: str) -> type:
    """The dataclass that checks its settings. Raises: ConfigError."""
    _folder(kind)
    build: Callable[..., Any] = importlib.import_module(DRIVERS[kind]).build
    candidates = [build.__globals__[name] for name in build.__code__.co_names if name.endswith("Settings")]
    (schema,) = [each for each in candidates if is_dataclass(each)]
    assert isinstance(schema, type)
    return schema


def _folder(kind: str) -> Path:
    if kind not in DRIVERS:
        raise ConfigError(no_such_driver(kind))
    return Path(__file__).parent / re.sub(r"\.driver$", "", DRIVERS[kind]).rpartition(".")[2]
