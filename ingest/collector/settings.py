"""What an operator can choose, and where everything is kept."""

from dataclasses import dataclass, field
from pathlib import Path

from protocol.shipping import MAX_ARCHIVE_BYTES

MEBI = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much of anything the collector bears. Each is checked before the cost arises."""

    max_archive_bytes: int = 256 * MEBI
    max_connections: int = 256
    max_uploads_per_device: int = 4  # unfinished ones; the oldest gives way
    upload_expiry_s: int = 7 * 24 * 3600  # since its last byte
    min_free_bytes: int = 256 * MEBI  # stays free on the landing area's disk
    device_bytes_per_s: int = 64 * MEBI
    device_requests_per_s: float = 20.0
    head_timeout_s: float = 20.0  # for a whole request head, and for the next one on a kept connection
    patience_s: float = 30.0  # of waiting within a body, per min_patience_bytes
    min_patience_bytes: int = 4096
    shutdown_grace_s: float = 10.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) <= 0 and name != "min_free_bytes":
                raise ValueError(f"{name} {getattr(self, name)} is not above 0")
        if self.max_archive_bytes > MAX_ARCHIVE_BYTES:
            raise ValueError(f"max_archive_bytes {self.max_archive_bytes} is above {MAX_ARCHIVE_BYTES}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """`landing` is for the ingest to read: whole, checked archives, nothing else. The rest is the collector's own."""

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
