"""The settings of archiving and shipping, and the space on the disk that archives need."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from agent.journal.settings import JournalSettings
from drivers.errors import ConfigError as SettingsError
from runtime.settings import Between, Matching, Seconds

ARCHIVE_CURSOR: Final = "archive"  # of the journal
SMALL_ARCHIVE_BYTES: Final = 512 * 1024


@dataclass(frozen=True, slots=True)
class CollectorAddress:
    """Checks the URL of a collector when the configuration is loaded, long before the first archive is shipped."""

    def problem(self, value: str) -> str:
        try:
            parts = urlsplit(value)
            parts.port  # noqa: B018 - raises ValueError if it is no number
            value.encode("ascii")
            (parts.hostname or "").encode("idna")
        except ValueError as error:
            return f"not the URL of a collector: {error}"
        if not parts.hostname or parts.username is not None or parts.query or parts.fragment:
            return "not a collector URL; expected https://HOST:PORT"  # without the URL, which may hold a password
        return ""


CollectorUrl = Annotated[
    str, Matching(r"https?://[^\s/]+(/\S*)?", "https://collector.example:8440"), CollectorAddress()
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveConfig:
    directory: Path | None = None  # default: below data_directory
    max_megabytes: Annotated[int, Between(1, 1024)] = 64  # most megabytes of messages in one archive
    every_s: Seconds = 900.0  # longest time before messages are archived
    min_free_megabytes: Annotated[int, Between(0, 1 << 20)] = 64  # free disk space below which no archive is started
    checkpoint_every_s: Seconds = 60.0  # longest time between checkpoints of the device log
    encrypt_to: Path | None = None  # file with the collector's encryption key, 64 hex digits; none: not encrypted


@dataclass(frozen=True, slots=True, kw_only=True)
class ShipConfig:
    """Ship to a collector (`url`, `collector_key`) or to a directory, such as a USB stick."""

    url: CollectorUrl | None = None  # URL of the collector; either this or directory
    collector_key: Path | None = None  # file with the key that signs receipts, 64 hex digits
    ca_file: Path | None = None  # CA certificates (PEM) to trust for TLS; none: the system's
    directory: Path | None = None  # folder or USB stick instead of url; `<sha256>.receipt` files are read from it
    require_mount: bool = False  # write to directory only if a file system is mounted at it or above it
    when: Literal["always", "idle"] = "always"  # idle: only while nothing waits to be published
    check_every_s: Seconds = 30.0  # how often to check for archives to ship
    kilobytes_per_s: Annotated[float, Between(0.1, 1e7)] | None = None  # upload rate limit; none: unlimited
    part_kilobytes: Annotated[int, Between(16, 65_536)] = 1024  # size of one request; an interrupted one is sent again
    timeout_s: Seconds = 60.0  # timeout of one request

    def __post_init__(self) -> None:
        if (self.url is None) == (self.directory is None):
            raise SettingsError("url: set either url or directory")
        if self.url is not None and self.collector_key is None:
            raise SettingsError("collector_key: missing; it is needed to verify receipts")


def reserve_bytes(settings: JournalSettings) -> int:
    """The space for an archive with the largest message, and its encrypted copy."""
    return SMALL_ARCHIVE_BYTES + 4 * settings.max_payload_bytes
