"""The node's settings: one TOML file, checked completely before anything is opened. Only this module knows TOML.

Every setting has a default, so that there need be no file at all. All problems are told at once, each with its dotted
path. A setting's place in the file is its place in the tree below: `limits.max_connections`.
"""

import difflib
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, get_type_hints

from node.access import Access, Audience, StreamCreation
from node.errors import ConfigError
from node.limits import Limits
from node.streams import ANYBODY, Grant, Operation, Stream, key_exchange_owner
from protocol.streamr.ethereum import is_address

if TYPE_CHECKING:
    from enum import StrEnum

__all__ = ["NodeConfig", "Retention", "StreamConfig", "load_config", "parse_config", "parse_listen"]

DEFAULT_LISTEN: Final = "127.0.0.1:7070"
DEFAULT_DATA: Final = Path("node-data")
MAX_CONFIG_BYTES: Final = 1024 * 1024
EVERYBODY: Final = "anybody"

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long messages are kept, and how many. A stream's own `storage_days` counts for it instead of `max_days`."""

    max_days: int = 365
    max_megabytes: int = 4_096  # of the whole database; beyond it, the oldest messages go first


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamConfig:
    """A stream that the node has from its start on, and who may do what with it."""

    stream: Stream
    owner: str | None = None  # may do everything
    publishers: tuple[str, ...] = ()
    subscribers: tuple[str, ...] = ()

    def grants(self) -> list[Grant]:
        owned = [Grant(self.stream.id, self.owner, operation) for operation in Operation] if self.owner else []
        for users, operation in ((self.publishers, Operation.PUBLISH), (self.subscribers, Operation.SUBSCRIBE)):
            for user in users:
                owned += [Grant(self.stream.id, user, operation), Grant(self.stream.id, user, Operation.GET)]
        return owned


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    listen: tuple[str, int] = ("127.0.0.1", 7070)
    data: Path = DEFAULT_DATA
    access: Access = field(default_factory=Access)
    limits: Limits = field(default_factory=Limits)
    retention: Retention = field(default_factory=Retention)
    streams: tuple[StreamConfig, ...] = ()


def load_config(path: Path) -> NodeConfig:
    """Raises: `ConfigError`, with every problem of the file; OSError where it cannot be read."""
    with path.open("rb") as file:
        text = file.read(MAX_CONFIG_BYTES + 1)
    if len(text) > MAX_CONFIG_BYTES:
        raise ConfigError(f"{path}: is larger than {MAX_CONFIG_BYTES} bytes")
    try:
        table = tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise ConfigError(f"{path}: is not TOML: {problem}") from None
    return parse_config(table, name=str(path))


def parse_config(table: Mapping[str, Any], *, name: str) -> NodeConfig:
    """Raises: `ConfigError`, with every problem."""
    checker = _Checker()
    config = checker.read_config(table)
    if checker.problems:
        count = len(checker.problems)
        heading = f"{name}: {count} problem{'s' if count > 1 else ''}"
        raise ConfigError("\n  ".join([heading, *checker.problems]))
    return config


def parse_listen(text: str) -> tuple[str, int]:
    """HOST:PORT, an IPv6 host in brackets. Raises ValueError."""
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal()) or int(port) > 65_535:
        raise ValueError(f"{text!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


class _Checker:
    """Reads tables into values and notes whatever is wrong. A wrong value is replaced by its default, to read on."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def read_config(self, table: Mapping[str, Any]) -> NodeConfig:
        readers: dict[str, Callable[[str, Any], Any]] = {
            "listen": self._listen,
            "data": lambda path, value: Path(self._typed(path, value, str, str(DEFAULT_DATA))),
            "access": self._access,
            "limits": lambda path, value: self._numbers(path, value, Limits),
            "retention": lambda path, value: self._numbers(path, value, Retention),
            "streams": self._streams,
        }
        self._refuse_unknown("", table, readers)
        return NodeConfig(**{key: readers[key](key, table[key]) for key in readers if key in table})

    def _listen(self, path: str, value: Any) -> tuple[str, int]:
        text = self._typed(path, value, str, DEFAULT_LISTEN)
        try:
            return parse_listen(text)
        except ValueError as problem:
            self._note(path, str(problem))
            return parse_listen(DEFAULT_LISTEN)

    def _access(self, path: str, value: Any) -> Access:
        table = self._table(path, value)
        known = ("stream_creation", "addresses", "status")
        self._refuse_unknown(path, table, known)
        return Access(
            stream_creation=self._choice(path, table, "stream_creation", StreamCreation.OWN_ADDRESS),
            status=self._choice(path, table, "status", Audience.LOOPBACK),
            addresses=frozenset(self._addresses(f"{path}.addresses", table.get("addresses", []))),
        )

    def _numbers(self, path: str, value: Any, kind: type[Value]) -> Value:
        """A dataclass of whole numbers and fractions, all of them positive."""
        table = self._table(path, value)
        hints = get_type_hints(kind)
        self._refuse_unknown(path, table, hints)
        given = {}
        for setting in fields(kind):  # type: ignore[arg-type]
            if setting.name in table:
                wanted = hints[setting.name]
                default = setting.default if setting.default is not MISSING else 0
                given[setting.name] = self._number(f"{path}.{setting.name}", table[setting.name], wanted, default)
        return kind(**given)

    def _number(self, path: str, value: Any, kind: type, default: Any) -> Any:
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            self._note(path, f"{value!r} is not a {'whole number' if kind is int else 'number'}")
            return default
        number = cast("float", value)
        if not 0 < number < float("inf"):
            self._note(path, f"{number} is not positive")
            return default
        return number

    def _streams(self, path: str, value: Any) -> tuple[StreamConfig, ...]:
        if not isinstance(value, list):
            self._note(path, "must be written as [[streams]]")
            return ()
        streams = [self._stream(f"{path}[{index}]", entry) for index, entry in enumerate(value)]
        found = [stream for stream in streams if stream is not None]
        ids = [each.stream.id for each in found]
        for index, stream_id in enumerate(ids):
            if stream_id in ids[:index]:
                self._note(f"{path}[{index}].id", f"{stream_id!r} is there twice")
        return tuple(found)

    def _stream(self, path: str, value: Any) -> StreamConfig | None:
        table = self._table(path, value)
        hints = {"id": str, "name": str, "description": str, "partitions": int, "storage_days": int}
        hints |= {"require_signed_data": bool, "require_encrypted_data": bool}
        self._refuse_unknown(path, table, (*hints, "owner", "publishers", "subscribers"))
        settings = {key: self._typed(f"{path}.{key}", table[key], hints[key], None) for key in hints if key in table}
        owners = self._addresses(f"{path}.owner", [table["owner"]] if "owner" in table else [])
        people = {
            key: tuple(self._addresses(f"{path}.{key}", table.get(key, []), or_everybody=True))
            for key in ("publishers", "subscribers")
        }
        if not settings.get("id") or key_exchange_owner(settings["id"]):
            self._note(f"{path}.id", "must be the id of a stream")
            return None
        try:
            stream = Stream(**{key: setting for key, setting in settings.items() if setting is not None})
        except ValueError as problem:
            self._note(path, str(problem))
            return None
        return StreamConfig(stream=stream, owner=owners[0] if owners else None, **people)

    def _addresses(self, path: str, value: Any, *, or_everybody: bool = False) -> list[str]:
        if not isinstance(value, list):
            self._note(path, "must be a list of addresses")
            return []
        found = []
        for index, entry in enumerate(value):
            if isinstance(entry, str) and is_address(entry):
                found.append(entry.lower())
            elif or_everybody and entry == EVERYBODY:
                found.append(ANYBODY)
            else:
                self._note(f"{path}[{index}]", f"{entry!r} is not an address" + (f" or {EVERYBODY!r}") * or_everybody)
        return found

    def _choice(self, path: str, table: Mapping[str, Any], key: str, default: Any) -> Any:
        choices: type[StrEnum] = type(default)
        value = table.get(key, default)
        if value not in list(choices):
            self._note(f"{path}.{key}", f"{value!r} is not one of {', '.join(choices)}")
            return default
        return choices(value)

    def _table(self, path: str, value: Any) -> Mapping[str, Any]:
        table: Mapping[str, Any] = self._typed(path, value, dict, {})
        return table

    def _typed(self, path: str, value: Any, kind: type, default: Any) -> Any:
        if type(value) is not kind:
            self._note(path, f"must be of type {kind.__name__}, not {type(value).__name__}")
            return default
        return value

    def _refuse_unknown(self, path: str, table: Mapping[str, Any], known: Any) -> None:
        for key in table:
            if key not in known:
                close = difflib.get_close_matches(key, list(known), n=1)
                hint = f"; did you mean {close[0]}?" if close else ""
                self._note(f"{path}.{key}".lstrip("."), f"unknown setting{hint}")

    def _note(self, path: str, problem: str) -> None:
        self.problems.append(f"{path}: {problem}")
