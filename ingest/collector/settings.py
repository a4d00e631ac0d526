"""Settings of the collector: limits, directories, TLS files."""

from dataclasses import dataclass, field
from pathlib import Path

from ingest.collector.errors import ConfigError
from protocol.shipping import MAX_ARCHIVE_BYTES

MEBI = 1024 * 1024
MAX_NUMBER = 2**60
MAX_CONNECTIONS = 1_000_000  # more than any system has files


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of the collector. Each is checked before memory, disk or time is spent."""

    max_archive_bytes: int = 256 * MEBI
    max_connections: int = 256
    max_connections_per_address: int = 64
    max_uploads_per_device: int = 4  # unfinished ones; beyond it the oldest is deleted
    max_logs_per_device: int = 256
    max_fork_bytes_per_device: int = 256 * MEBI  # of evidence
    upload_expiry_s: int = 7 * 24 * 3600  # since its last byte
    min_free_bytes: int = 256 * MEBI  # stays free on the landing area's disk
    device_bytes_per_s: int = 64 * MEBI
    device_requests_per_s: float = 20.0
    head_timeout_s: float = 20.0  # for a whole request head, and for the next one on a kept connection
    patience_s: float = 30.0  # longest wait for each min_patience_bytes of a body
    min_patience_bytes: int = 4096
    shutdown_grace_s: float = 10.0

    def __post_init__(self) -> None:
        """Raises: ConfigError with every problem."""
        highest = {"max_archive_bytes": MAX_ARCHIVE_BYTES, "max_connections": MAX_CONNECTIONS}
        lowest = {"min_free_bytes": 0}
        problems = []
        for name in self.__slots__:
            value, low, high = getattr(self, name), lowest.get(name), highest.get(name, MAX_NUMBER)
            if value > high:
                problems.append(f"{name} {value} is above {high}")
            elif value < low if low is not None else value <= 0:
                problems.append(f"{name} {value} is not above {'or at ' * (low is not None)}0")
        if problems:
            raise ConfigError(*problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """`landing` is for the ingest to read: complete, verified archives only. The rest is private to the collector."""

    landing: Path
    uploads: Path  # on the landing area's file system, and not within what the ingest lists
    state: Path

    @property
    def keys(self) -> Path:
        return self.state / "keys"

    @property
    def devices(self) -> Path:
        return self.state / "devices"

    @property
    def receipts(self) -> Path:
        return self.state / "receipts"

    @property
    def logs(self) -> Path:
        return self.state / "logs"

    @property
    def forks(self) -> Path:
        return self.state / "forks"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    host: str
    port: int  # 0: any that is free
    folders: Folders
    limits: Limits = field(default_factory=Limits)
    tls: TlsFiles | None = None
    monitoring: tuple[str, int] | None = None  # address for /metrics and /healthz, which --listen does not serve then
