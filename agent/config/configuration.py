"""Loads the configuration: one TOML file → one tree of frozen values, checked before any port or socket opens.

All problems are reported at once, each with its dotted path; unknown keys are errors; a secret is never a value here,
only the path of the file that holds it. Relative paths count from the folder of the configuration file.

| table | what |
|---|---|
| `[device]` | the device's name, keys and data directory |
| `[journal]` | the durable buffer |
| `[drivers.NAME]` | one device each; `driver` says which kind |
| `[[streams]]` | which readings go where; the first rule that matches |
| `[publishers.NAME]` | one destination each; `kind` says which |
| `[archive]`, `[ship]` | archives, and where they go |
| `[page]`, `[status]`, `[log]` | what the operator sees |
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

from agent.archive.settings import ARCHIVE_CURSOR, ArchiveConfig, ShipConfig
from agent.config.page import PageConfig
from agent.config.publishers import MqttConfig, PublisherConfig, check_publisher
from agent.errors import ConfigError
from agent.journal import JournalSettings
from agent.journal.settings import MAX_CURSORS, MIB
from agent.pack.routing import DEFAULT_RULE, DEVICE_PLACEHOLDERS, StreamRule, template_problem
from drivers.contract import Driver
from drivers.errors import ConfigError as SettingsError
from drivers.registry import build_driver
from runtime.settings import Between, Matching, Seconds, Text, check_settings
from runtime.toml_file import dotted, read_toml

SYSTEM_CONFIG: Final = Path("/etc/headgate/headgate.toml")
USER_CONFIG: Final = Path("headgate/headgate.toml")  # below $XDG_CONFIG_HOME
CONFIG_VARIABLE: Final = "HEADGATE_CONFIG"
MAX_NAMES: Final = 64  # of drivers, and of rules

NAME_FORM: Final = Matching("[A-Za-z0-9][A-Za-z0-9_-]{0,63}", "boiler-room_7")
Name = Annotated[str, NAME_FORM]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceConfig:
    name: Name  # name of the gateway in stream ids, events and logs
    data_directory: Path = Path("/var/lib/headgate")  # journal, archives, keys and status; back up its keys
    key_file: Path | None = None  # default: systemd credential, $HEADGATE_KEYS, or in data_directory
    passphrase_file: Path | None = None  # private file with the passphrase; none: systemd credential, or prompt
    events_stream: Text = "{address}/{device}/events"  # start, stop, losses, clock and device changes

    def __post_init__(self) -> None:
        if problem := template_problem(self.events_stream, DEVICE_PLACEHOLDERS):
            raise SettingsError(f"events_stream: {problem}")


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalConfig:
    directory: Path | None = None  # default: below data_directory
    max_megabytes: Annotated[int, Between(1, 1 << 20)] = 512  # hard limit on the size of the journal on disk
    segment_kilobytes: Annotated[int, Between(64, 65_536)] = 4096  # size of one file; a message has at most a quarter
    commit_records: Annotated[int, Between(1, 16_384)] = 250  # commit when this many records are waiting …
    commit_interval_s: Annotated[float, Between(0, 3600)] = 1.0  # … or this long after the previous commit
    compression: Literal["zstd", "none"] = "zstd"  # compression of each commit
    when_full: Literal["shed", "stop_reading"] = "shed"  # shed: lowest priority first, every loss recorded
    thinned_priorities: tuple[
        Annotated[int, Between(0, 31)], ...
    ] = ()  # priorities of which every second record is dropped first
    positions_interval_s: Annotated[float, Between(0, 3600)] = 10.0  # interval of saving cursors; resent after a crash
    card_endurance_terabytes: Annotated[float, Between(0.001, 100_000)] | None = None  # rated endurance, for forecasts

    def settings(self, cursors: tuple[str, ...]) -> JournalSettings:
        """Raises ValueError where the figures do not fit together."""
        endurance = self.card_endurance_terabytes
        return JournalSettings(
            max_bytes=self.max_megabytes * MIB,
            segment_bytes=self.segment_kilobytes * 1024,
            commit_records=self.commit_records,
            commit_interval_ms=round(self.commit_interval_s * 1000),
            compression=self.compression,
            when_full=self.when_full,
            thinned_lanes=frozenset(self.thinned_priorities),
            cursors=cursors,
            positions_interval_ms=round(self.positions_interval_s * 1000),
            card_endurance_bytes=None if endurance is None else round(endurance * 1e12),
        )

    def __post_init__(self) -> None:
        self.settings(("any",))


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusConfig:
    file: Path | None = None  # default: below data_directory
    every_s: Seconds = 5.0  # how often the status file is written


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    level: Literal["debug", "info", "warning", "error"] = "info"  # lowest level that is logged
    format: Literal["text", "json"] = "text"  # words and key=value, or one JSON object per line


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tables:
    """The tables with fixed settings, validated by `check_settings`."""

    device: DeviceConfig
    journal: JournalConfig = field(default_factory=JournalConfig)
    streams: tuple[StreamRule, ...] = (DEFAULT_RULE,)
    archive: ArchiveConfig | None = None
    ship: ShipConfig | None = None
    page: PageConfig = field(default_factory=PageConfig)
    status: StatusConfig = field(default_factory=StatusConfig)
    log: LogConfig = field(default_factory=LogConfig)

    def __post_init__(self) -> None:
        if self.ship is not None and self.archive is None:
            raise SettingsError("archive: missing; [ship] requires [archive]")
        if not 0 < len(self.streams) <= MAX_NAMES:
            raise SettingsError(f"streams: {len(self.streams)} rules; expected 1 to {MAX_NAMES}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(_Tables):
    """The whole configuration."""

    path: Path
    sha256: bytes  # of the file as it was read
    drivers: Mapping[str, Mapping[str, object]]  # validated, and otherwise as given
    publishers: Mapping[str, PublisherConfig]

    @property
    def journal_directory(self) -> Path:
        return self.journal.directory or self.device.data_directory / "journal"

    @property
    def archive_directory(self) -> Path:
        configured = self.archive.directory if self.archive else None
        return configured or self.device.data_directory / "archives"

    @property
    def status_file(self) -> Path:
        return self.status.file or self.device.data_directory / "status.json"

    @property
    def links_socket(self) -> Path:
        """The socket through which the agent shares its microcontroller links."""
        return self.device.data_directory / "links.sock"

    @property
    def cursors(self) -> tuple[str, ...]:
        """One per publisher, one for the archiver. A journal without any reader retains what it can."""
        return (*self.publishers, *((ARCHIVE_CURSOR,) if self.archive else ())) or ("none",)

    def build_drivers(self) -> dict[str, Driver]:
        return {name: build_driver(name, table) for name, table in self.drivers.items()}


def find_config(environment: Mapping[str, str]) -> Path:
    """The configuration file: of $HEADGATE_CONFIG, else the system's, else the user's own."""
    if named := environment.get(CONFIG_VARIABLE):
        return Path(named)
    user = Path(environment.get("XDG_CONFIG_HOME") or Path.home() / ".config") / USER_CONFIG
    return user if user.exists() and not SYSTEM_CONFIG.exists() else SYSTEM_CONFIG


def load_config(path: Path) -> Config:
    """Raises: ConfigError with every problem, OSError if the file cannot be read."""
    config, problems = load_valid_sections(path)
    if problems or config is None:
        raise ConfigError(*problems, file=path)
    return config


def load_valid_sections(path: Path) -> tuple[Config | None, list[str]]:
    """The configuration without its invalid sections (None if [device] is one of them), and every problem.

    Raises: ConfigError if it is not TOML, OSError if it cannot be read.
    """
    table, data = read_toml(path)
    return _parse(table, path, hashlib.sha256(data).digest())


def _parse(table: Mapping[str, Any], path: Path, sha256: bytes) -> tuple[Config | None, list[str]]:
    problems: list[str] = []
    rest = dict(table)
    drivers = _named_tables(rest.pop("drivers", {}), "drivers", problems, _check_driver)
    publishers = _named_tables(rest.pop("publishers", {}), "publishers", problems, check_publisher)
    if len(publishers) >= MAX_CURSORS:
        problems.append(f"publishers: {len(publishers)} are more than {MAX_CURSORS - 1}")
    tables, table_problems = _check_tables(rest)
    problems += table_problems
    if tables is None:
        return None, problems
    if tables.archive is not None and ARCHIVE_CURSOR in publishers:
        problems.append(f"publishers.{ARCHIVE_CURSOR}: this name is reserved for [archive]; choose another")
    if not table_problems:
        problems += _contradictions(drivers, tables.streams, publishers)
    folder = path.parent
    config = Config(
        path=path,
        sha256=sha256,
        drivers={name: _table_resolved(name, table, folder) for name, table in drivers.items()},
        publishers={name: _resolved(each, folder) for name, each in publishers.items()},
        **{each.name: _resolved(getattr(tables, each.name), folder) for each in fields(tables)},
    )
    return config, problems


def _check_tables(table: Mapping[str, Any]) -> tuple[_Tables | None, list[str]]:
    """The sections that are valid (None if the required ones are not), and every problem."""
    problems: list[str] = []
    tables = _collect(problems, lambda: check_settings(_Tables, table))
    if tables is None:
        invalid = {re.split(r"[.:\[]", problem, maxsplit=1)[0] for problem in problems}
        valid = {each.name: table[each.name] for each in fields(_Tables) if each.name in table.keys() - invalid}
        tables = _collect([], lambda: check_settings(_Tables, valid))
    return tables, problems


def _check_driver(name: str, table: Mapping[str, object]) -> Mapping[str, object]:
    build_driver(name, table)
    return table


def _named_tables(
    given: object, section: str, problems: list[str], check: Callable[[str, Mapping[str, object]], T]
) -> dict[str, T]:
    if not isinstance(given, Mapping) or not all(isinstance(table, Mapping) for table in given.values()):
        problems.append(f"{section}: expected tables with names: [{section}.NAME]")
        return {}
    if len(given) > MAX_NAMES:
        problems.append(f"{section}: {len(given)} are more than {MAX_NAMES}")
    checked = {}
    for name, table in given.items():
        if problem := NAME_FORM.problem(name):
            problems.append(f"{dotted(section, name)}: {problem}")
        value = _collect(problems, partial(check, name, table))
        if value is not None:
            checked[name] = value
    return checked


def _collect(problems: list[str], check: Callable[[], T]) -> T | None:
    try:
        return check()
    except SettingsError as error:
        problems.extend(error.problems)
        return None


def _table_resolved(name: str, table: Mapping[str, object], folder: Path) -> Mapping[str, object]:
    """The table of a driver with absolute paths, and otherwise as given."""
    settings = getattr(build_driver(name, table), "settings", None)
    if not is_dataclass(settings):
        return table
    paths = {each.name for each in fields(settings) if isinstance(getattr(settings, each.name), Path)}
    return {key: os.path.normpath(folder / str(value)) if key in paths else value for key, value in table.items()}


def _resolved(section: T, folder: Path) -> T:
    """The section with absolute paths; relative ones count from `folder`, that of the configuration file."""
    if not is_dataclass(section):
        return section
    values = {each.name: getattr(section, each.name) for each in fields(section)}
    paths = {name: Path(os.path.normpath(folder / path)) for name, path in values.items() if isinstance(path, Path)}
    return replace(section, **paths)  # type: ignore[type-var]


def _contradictions(
    drivers: Iterable[str], rules: Sequence[StreamRule], publishers: Mapping[str, PublisherConfig]
) -> Iterator[str]:
    """Combinations of settings that would lose data."""
    for driver in drivers:
        if not any(fnmatchcase(driver, rule.driver) for rule in rules):
            remedy = f'add a rule with driver = "{driver}", or one without driver'
            yield f"streams: no rule matches readings of {dotted('drivers', driver)}: they would be dropped; {remedy}"
    encrypted = [f"streams[{place}]" for place, rule in enumerate(rules) if rule.encryption != "none"]
    for name, publisher in publishers.items():
        if encrypted and isinstance(publisher, MqttConfig) and publisher.payload == "io_message":
            problem = f"io_message cannot carry encrypted messages ({', '.join(encrypted)}): they would be refused"
            yield f'{dotted("publishers", name)}.payload: {problem}; use "stream_message"'
