"""The landing area: `<sha256>.hga`, `<device>-<log>.checkpoint` and `<device>-<log>.forked`, flat, each file whole,
checked and durable from the moment it has its name.

The ingest lists only this folder. A checkpoint is replaced by a newer one of the same log. The times of a file are
those of its arrival, whatever a device's clock is: Spark's file source skips files that are much older than the newest.
"""

import os
from contextlib import suppress
from pathlib import Path

from ingest.collector.errors import ConfigError
from protocol.devicelog.checkpoint import Checkpoint
from protocol.shipping import checkpoint_name, forked_name
from runtime.durable_files import make_directory, replace_file, sync_directory

SUFFIX = ".hga"
LANDING_FOLDER = 0o750
ARCHIVE_MODE = 0o640  # for the ingest to read, through the group


class Landing:
    def __init__(self, folder: Path) -> None:
        make_directory(folder, mode=LANDING_FOLDER)
        self._folder = folder

    def path(self, sha256: bytes) -> Path:
        return self._folder / f"{sha256.hex()}{SUFFIX}"

    def holds(self, sha256: bytes) -> bool:
        return self.path(sha256).is_file()

    def store(self, upload: Path, sha256: bytes, arrived_at_ms: int) -> None:
        """Give a checked upload its final name. Durable when this returns.

        Raises: OSError, after deleting the upload: after a failed fsync the page cache may differ from the disk, so
        its bytes must not be used again.
        """
        try:
            _sync_with_times(upload, arrived_at_ms)
        except OSError:
            upload.unlink(missing_ok=True)
            raise
        upload.replace(self.path(sha256))
        self.sync()

    def sync(self) -> None:
        """Make all names durable, also those that a killed process left."""
        sync_directory(self._folder)

    def holds_checkpoint(self, device: bytes, log: bytes) -> bool:
        return (self._folder / checkpoint_name(device, log)).is_file()

    def store_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Replace the checkpoint of its log; its time is now. Durable when this returns. Raises: OSError."""
        name = checkpoint_name(checkpoint.device, checkpoint.log)
        replace_file(self._folder / name, checkpoint.to_bytes(), mode=ARCHIVE_MODE)

    def mark_forked(self, device: bytes, log: bytes) -> None:
        """Tell the ingest that this log is forked. Durable when this returns. Raises: OSError."""
        path = self._folder / forked_name(device, log)
        if not path.exists():
            replace_file(path, b"", mode=ARCHIVE_MODE)

    def check_moves_from(self, uploads: Path) -> None:
        """Raises: ConfigError unless a file can be moved here from `uploads` in one step."""
        probe = uploads / ".probe"
        arrived = self._folder / ".probe"
        probe.touch()
        try:
            probe.replace(arrived)
        except OSError as error:
            raise ConfigError(
                f"{uploads}: files cannot be renamed from here into {self._folder} ({error.strerror});"
                f" name a folder of the same file system, such as --uploads {self._folder / '.uploads'}"
            ) from error
        finally:
            for path in (probe, arrived):
                with suppress(FileNotFoundError):
                    path.unlink()


def _sync_with_times(path: Path, arrived_at_ms: int) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        arrived_at_ns = arrived_at_ms * 1_000_000
        os.utime(descriptor, ns=(arrived_at_ns, arrived_at_ns))
        os.fchmod(descriptor, ARCHIVE_MODE)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
