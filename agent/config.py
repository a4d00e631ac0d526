"""One TOML file → one tree of frozen values, checked completely before any port or socket opens.

Only this module knows TOML. Every problem is found at once and told with its dotted path; unknown keys are errors; a
secret is never a value here, only the path of the file that holds it. Relative paths count from the folder of the
configuration file.

| table | what |
|---|---|
| `[device]` | who this is, and where it keeps its data |
| `[journal]` | the durable buffer |
| `[drivers.NAME]` | one device each; `driver` says which kind |
| `[[streams]]` | which readings go where; the first rule that matches |
| `[publishers.NAME]` | one far end each; `kind` says which |
| `[archive]`, `[ship]` | archives, and where they go |
| `[page]`, `[status]`, `[log]` | what the operator sees |
"""

import hashlib
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

from agent.errors import ConfigError
from agent.journal import JournalSettings
from agent.journal.settings import MAX_CURSORS, MIB
from agent.page_config import PageConfig
from agent.publisher_config import PublisherConfig, check_publisher
from agent.routing import DEFAULT_RULE, StreamRule
from drivers.contract import Driver
from drivers.errors import ConfigError as SettingsError
from drivers.registry import build_driver
from drivers.settings import Between, Matching, Seconds, Text, check_settings

__all__ = [
    "ArchiveConfig",
    "Config",
    "DeviceConfig",
    "JournalConfig",
    "LogConfig",
    "ShipConfig",
    "StatusConfig",
    "find_config",
    "load_config",
]

SYSTEM_CONFIG: Final = Path("/etc/headgate/headgate.toml")
USER_CONFIG: Final = Path("headgate/headgate.toml")  # below $XDG_CONFIG_HOME
CONFIG_VARIABLE: Final = "HEADGATE_CONFIG"
MAX_CONFIG_BYTES: Final = 1 << 20
MAX_NAMES: Final = 64  # of drivers, and of rules
ARCHIVE_CURSOR: Final = "archive"

NAME_FORM: Final = Matching("[A-Za-z0-9][A-Za-z0-9_-]{0,63}", "boiler-room_7")
Name = Annotated[str, NAME_FORM]
CollectorUrl = Annotated[str, Matching(r"https?://[^\s/]+(/\S*)?", "https://collector.example:8440")]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceConfig:
    name: Name  # who this gateway is, in stream ids, events and logs
    data_directory: Path = Path("/var/lib/headgate")  # journal, archives, keys and status; back up its keys
    key_file: Path | None = None  # default: handed in by the service manager, $HEADGATE_KEYS, or below data_directory
    passphrase_file: Path | None = None  # private file that unlocks the keys; none: a credential, or asked for
    events_stream: Text = "{address}/{device}/events"  # where start, stop, gaps, clock and device changes are told


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalConfig:
    directory: Path | None = None  # default: below data_directory
    max_megabytes: Annotated[int, Between(1, 1 << 20)] = 512  # strict, of all its files together
    segment_kilobytes: Annotated[int, Between(16, 65_536)] = 4096  # size of one file; these are used over and over
    commit_records: Annotated[int, Between(1, 16_384)] = 250  # commit when this many wait …
    commit_interval_s: Annotated[float, Between(0, 3600)] = 1.0  # … or this long after the commit before
    compression: Literal["zstd", "none"] = "zstd"  # of each commit, as a whole
    when_full: Literal["shed", "stop_reading"] = "shed"  # shed: lowest priority first, every loss recorded
    thinned_priorities: tuple[Annotated[int, Between(0, 31)], ...] = ()  # keep every second before losing all
    positions_interval_s: Annotated[float, Between(0, 3600)] = 10.0  # how much a crash may send again
    card_endurance_terabytes: Annotated[float, Between(0.001, 100_000)] | None = (
        None  # of the card, to forecast its life
    )

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
class ArchiveConfig:
    directory: Path | None = None  # default: below data_directory
    max_megabytes: Annotated[int, Between(1, 1024)] = 64  # of messages in one archive
    every_s: Seconds = 900.0  # what waits longer is archived, however little it is
    seal_to: Path | None = None  # file with the collector's sealing key, 64 hex digits; none: archives stay readable


@dataclass(frozen=True, slots=True, kw_only=True)
class ShipConfig:
    """To a collector (`url`, `collector_key`) or into a directory, which a person may carry."""

    url: CollectorUrl | None = None  # either this or a directory
    collector_key: Path | None = None  # file with the key that signs receipts, 64 hex digits
    ca_file: Path | None = None  # whom to trust for TLS; none: the system's list
    directory: Path | None = None  # a folder or stick instead; `<sha256>.receipt` files are taken from there
    when: Literal["always", "idle"] = "always"  # idle: only while nothing waits to be published
    check_every_s: Seconds = 30.0  # how often to look for archives that wait
    kilobytes_per_s: Annotated[float, Between(0.1, 1e7)] | None = None  # none: as fast as the link goes
    part_kilobytes: Annotated[int, Between(16, 65_536)] = 1024  # one request; what a broken link costs
    timeout_s: Seconds = 60.0  # of one request

    def __post_init__(self) -> None:
        if (self.url is None) == (self.directory is None):
            raise SettingsError("url: either a url or a directory is wanted")
        if self.url is not None and self.collector_key is None:
            raise SettingsError("collector_key: missing; receipts cannot be checked without it")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusConfig:
    file: Path | None = None  # default: below data_directory
    every_s: Seconds = 5.0  # how often it is written; `headgate status` reads it


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    level: Literal["debug", "info", "warning", "error"] = "info"  # and what is worse
    form: Literal["text", "json"] = "text"  # words and key=value, or one JSON object per line


@dataclass(frozen=True, slots=True, kw_only=True)
class _Document:
    """The file as the settings' checker sees it; what other rooms check stands as plain tables."""

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
            raise SettingsError("archive: missing; there is nothing to ship without archives")
        if not 0 < len(self.streams) <= MAX_NAMES:
            raise SettingsError(f"streams: {len(self.streams)} rules; 1 to {MAX_NAMES} are wanted")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything that `headgate run` needs to know. Tables of drivers are checked, and kept as given."""

    path: Path
    sha256: bytes  # of the file as it was read
    device: DeviceConfig
    journal: JournalConfig
    drivers: Mapping[str, Mapping[str, object]]
    streams: tuple[StreamRule, ...]
    publishers: Mapping[str, PublisherConfig]
    archive: ArchiveConfig | None
    ship: ShipConfig | None
    page: PageConfig
    status: StatusConfig
    log: LogConfig

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
        """Where the agent lends the links that it holds."""
        return self.device.data_directory / "links.sock"

    @property
    def cursors(self) -> tuple[str, ...]:
        """One per publisher, one for the archiver. A journal without any reader keeps what it can."""
        return (*self.publishers, *((ARCHIVE_CURSOR,) if self.archive else ())) or ("nobody",)

    def build_drivers(self) -> dict[str, Driver]:
        return {name: build_driver(name, table) for name, table in self.drivers.items()}


def find_config(environment: Mapping[str, str]) -> Path:
    """Named by the environment, else the system's, else the user's own."""
    if named := environment.get(CONFIG_VARIABLE):
        return Path(named)
    user = Path(environment.get("XDG_CONFIG_HOME") or Path.home() / ".config") / USER_CONFIG
    return user if user.exists() and not SYSTEM_CONFIG.exists() else SYSTEM_CONFIG


def load_config(path: Path) -> Config:
    """Raises: ConfigError with every problem, OSError if the file cannot be read."""
    with path.open("rb") as file:
        data = file.read(MAX_CONFIG_BYTES + 1)
    if len(data) > MAX_CONFIG_BYTES:
        raise ConfigError(f"{path}: larger than {MAX_CONFIG_BYTES} bytes")
    try:
        table = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: not TOML: {error}") from None
    return _parse(table, path, hashlib.sha256(data).digest())


def _parse(table: Mapping[str, Any], path: Path, sha256: bytes) -> Config:
    """Raises: ConfigError with every problem."""
    problems: list[str] = []
    rest = dict(table)
    drivers = _named_tables(rest.pop("drivers", {}), "drivers", problems, _check_driver)
    publishers = _named_tables(rest.pop("publishers", {}), "publishers", problems, check_publisher)
    if len(publishers) >= MAX_CURSORS:
        problems.append(f"publishers: {len(publishers)} are more than {MAX_CURSORS - 1}")
    document = _collect(problems, lambda: check_settings(_Document, rest))
    if problems or document is None:
        count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
        raise ConfigError("\n  ".join([f"{path}: {count}", *problems]))
    folder = path.parent
    return Config(
        path=path,
        sha256=sha256,
        device=_resolved(document.device, folder),
        journal=_resolved(document.journal, folder),
        drivers=drivers,
        streams=document.streams,
        publishers={name: _resolved(each, folder) for name, each in publishers.items()},
        archive=document.archive and _resolved(document.archive, folder),
        ship=document.ship and _resolved(document.ship, folder),
        page=_resolved(document.page, folder),
        status=_resolved(document.status, folder),
        log=document.log,
    )


def _check_driver(name: str, table: Mapping[str, object]) -> Mapping[str, object]:
    build_driver(name, table)
    return table


def _named_tables(
    given: object, section: str, problems: list[str], check: Callable[[str, Mapping[str, object]], T]
) -> dict[str, T]:
    if not isinstance(given, Mapping) or not all(isinstance(table, Mapping) for table in given.values()):
        problems.append(f"{section}: tables with names are wanted: [{section}.NAME]")
        return {}
    if len(given) > MAX_NAMES:
        problems.append(f"{section}: {len(given)} are more than {MAX_NAMES}")
    checked = {}
    for name, table in given.items():
        if complaint := NAME_FORM.complain(name):
            problems.append(f"{section}.{name}: {complaint}")
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


def _resolved(section: T, folder: Path) -> T:
    """Relative paths count from the folder of the file that names them."""
    paths = {each.name: getattr(section, each.name) for each in fields(section)}  # type: ignore[arg-type]
    return replace(  # type: ignore[type-var]
        section,
        **{name: Path(os.path.normpath(folder / path)) for name, path in paths.items() if isinstance(path, Path)},
    )
