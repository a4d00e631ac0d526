"""The node's settings: one TOML file, checked completely before anything is opened.

Every setting has a default, so no file is required. All problems are reported at once, each with its dotted path.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Final

from node.access.policy import Access, Address, Form
from node.errors import ConfigError
from node.limits import Count, Limits
from node.streams import PUBLIC, Grant, Operation, Stream, key_exchange_owner
from protocol.ethereum.hashing import is_address
from runtime.private_files import read_private_file
from runtime.settings import ListenAddress, check_settings, parse_listen
from runtime.toml_file import read_toml

DEFAULT_LISTEN: Final = "127.0.0.1:7070"
DEFAULT_DATA: Final = Path("node-data")
MIN_API_KEY_BYTES: Final = 16
MAX_API_KEY_BYTES: Final = 256
PUBLIC_NAME: Final = "public"


User = Annotated[str, Form(lambda text: is_address(text) or text == PUBLIC_NAME, f"an address or {PUBLIC_NAME!r}")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long, and how many, messages are stored. `storage_days` of a stream overrides `max_days`."""

    max_days: Count = 365
    max_megabytes: Count = 4_096  # of the database; beyond it, the heaviest user's oldest messages are deleted
    max_megabytes_per_owner: Count | None = None  # of the messages of one publisher; none: no limit
    max_megabytes_per_address: Count | None = None  # of the messages that came from one network address


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamConfig:
    """A stream that the configuration declares, and the users that may do what with it."""

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
class ApiKey:
    """An API key, in a file, that identifies an old client that cannot sign as an address."""

    address: Address
    key_file: Path

    def read(self) -> str:
        """Raises: `ConfigError`; OSError if the file cannot be read."""
        text = read_private_file(self.key_file, max_bytes=MAX_API_KEY_BYTES).strip()
        if not MIN_API_KEY_BYTES <= len(text) <= MAX_API_KEY_BYTES:
            raise ConfigError(
                f"{self.key_file}: an API key has {MIN_API_KEY_BYTES} to {MAX_API_KEY_BYTES} bytes, not {len(text)}"
            )
        return text.decode(errors="replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    listen: tuple[str, int] = ("127.0.0.1", 7070)
    data: Path = DEFAULT_DATA
    access: Access = field(default_factory=Access)
    limits: Limits = field(default_factory=Limits)
    retention: Retention = field(default_factory=Retention)
    streams: tuple[StreamConfig, ...] = ()
    api_keys: tuple[ApiKey, ...] = ()


def load_config(path: Path) -> NodeConfig:
    """Raises: `ConfigError`, with every problem of the file; OSError if it cannot be read."""
    table, _ = read_toml(path)
    return parse_config(table, name=str(path))


def parse_config(table: Mapping[str, Any], *, name: str) -> NodeConfig:
    """Raises: `ConfigError`, with every problem."""
    try:
        document = check_settings(_Document, table)
    except ConfigError as error:
        raise ConfigError(*error.problems, file=name) from None
    return NodeConfig(
        listen=parse_listen(document.listen),
        data=document.data,
        access=document.access.in_lower_case(),
        limits=document.limits,
        retention=document.retention,
        streams=tuple(stream.config() for stream in document.streams),
        api_keys=tuple(replace(key, address=key.address.lower()) for key in document.api_keys),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _StreamTable(Stream):
    """`[[streams]]`, as it is written."""

    owner: Address | None = None
    publishers: tuple[User, ...] = ()
    subscribers: tuple[User, ...] = ()

    def __post_init__(self) -> None:
        if not self.id or key_exchange_owner(self.id):
            raise ConfigError("id: must be the id of a stream")
        try:
            Stream.__post_init__(self)
        except ValueError as error:
            raise ConfigError(str(error)) from None

    def config(self) -> StreamConfig:
        return StreamConfig(
            stream=Stream(**{each.name: getattr(self, each.name) for each in fields(Stream)}),
            owner=self.owner and self.owner.lower(),
            publishers=tuple(map(_user, self.publishers)),
            subscribers=tuple(map(_user, self.subscribers)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Document:
    """The whole file, as it is written."""

    listen: Annotated[str, ListenAddress()] = DEFAULT_LISTEN
    data: Path = DEFAULT_DATA
    access: Access = field(default_factory=Access)
    limits: Limits = field(default_factory=Limits)
    retention: Retention = field(default_factory=Retention)
    streams: tuple[_StreamTable, ...] = ()
    api_keys: tuple[ApiKey, ...] = ()

    def __post_init__(self) -> None:
        ids = [stream.id for stream in self.streams]
        twice = [index for index, stream_id in enumerate(ids) if stream_id in ids[:index]]
        if twice:
            raise ConfigError(*(f"streams[{index}].id: {ids[index]!r} is declared twice" for index in twice))


def _user(text: str) -> str:
    return PUBLIC if text == PUBLIC_NAME else text.lower()
