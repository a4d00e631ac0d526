"""Unfinished uploads: `<uploads>/<device>/<sha256>.part`, with the bytes received so far.

Promises: a part only grows by bytes of requests whose claim the device signed; it never becomes an archive unless all
of it was checked. A part may be lost: after a crash, by age, or when its device starts too many uploads. Then the
device sends again from the first byte.
"""

import os
import threading
from contextlib import suppress
from pathlib import Path

from ingest.collector.errors import UploadRefused
from ingest.collector.settings import Limits
from protocol.shipping import Refusal, UploadClaim
from runtime.durable_files import PRIVATE_DIRECTORY, make_directory

SUFFIX = ".part"
PART_MODE = 0o600


class UploadFile:
    """One part, open for the bytes that follow. It never grows beyond what the claim says."""

    def __init__(self, path: Path, size_bytes: int, *, offset: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | (0 if offset else os.O_TRUNC)
        self.path = path
        self.offset = offset
        self.size_bytes = size_bytes
        self._descriptor = os.open(path, flags, PART_MODE)

    @property
    def missing_bytes(self) -> int:
        return self.size_bytes - self.offset

    def append(self, data: bytes) -> None:
        """Raises: OSError, with `offset` after the bytes that were written."""
        if len(data) > self.missing_bytes:
            raise UploadRefused(Refusal.BAD_LENGTH, f"more than the {self.size_bytes} bytes of the claim")
        rest = memoryview(data)
        while rest:
            written = os.pwrite(self._descriptor, rest, self.offset)
            self.offset += written
            rest = rest[written:]

    def close(self) -> None:
        os.close(self._descriptor)


class Uploads:
    """All unfinished uploads, and which of them are being written."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        make_directory(folder, mode=PRIVATE_DIRECTORY)
        self._folder = folder
        self._limits = limits
        self._open: set[UploadFile] = set()
        self._lock = threading.Lock()  # worker threads open and close

    def path(self, claim: UploadClaim) -> Path:
        return self._folder / claim.device.hex() / f"{claim.archive.hex()}{SUFFIX}"

    def offset(self, claim: UploadClaim) -> int:
        """The number of bytes that are stored. A part longer than the archive counts as none."""
        try:
            size_bytes = self.path(claim).stat().st_size
        except FileNotFoundError:
            return 0
        return size_bytes if size_bytes <= claim.size_bytes else 0

    def open(self, claim: UploadClaim, offset: int) -> UploadFile:
        """Continue at `offset`, or restart at 0. Raises: UploadRefused if there is no space."""
        path = self.path(claim)
        with self._lock:
            if not path.parent.is_dir():  # a part need not survive a power cut: no sync for each
                make_directory(path.parent, mode=PRIVATE_DIRECTORY)
            self._delete_excess(path)
            self._check_space(claim.size_bytes - offset)
            upload = UploadFile(path, claim.size_bytes, offset=offset)
            self._open.add(upload)
        return upload

    def close(self, upload: UploadFile) -> None:
        with self._lock:
            self._open.discard(upload)
        upload.close()

    @property
    def active(self) -> int:
        return len(self._open)

    def discard(self, claim: UploadClaim) -> None:
        self.path(claim).unlink(missing_ok=True)

    def expire(self, now_s: float) -> int:
        """Delete the uploads that were not continued in time. Returns how many."""
        oldest_s = now_s - self._limits.upload_expiry_s
        with self._lock:
            idle = [path for path in self._folder.glob(f"*/*{SUFFIX}") if not self._is_open(path)]
            expired = [path for path in idle if _modified_s(path) < oldest_s]
            for path in expired:
                path.unlink(missing_ok=True)
        return len(expired)

    def _is_open(self, path: Path) -> bool:
        return any(upload.path == path for upload in self._open)

    def _delete_excess(self, path: Path) -> None:
        """Delete the device's oldest other uploads beyond the limit."""
        others = [each for each in path.parent.glob(f"*{SUFFIX}") if each != path]
        excess = len(others) + 1 - self._limits.max_uploads_per_device
        if excess <= 0:
            return
        idle = sorted((each for each in others if not self._is_open(each)), key=_modified_s)
        if len(idle) < excess:
            raise UploadRefused(Refusal.BUSY, f"{len(others)} uploads of this device are under way", retry_after_s=30)
        for each in idle[:excess]:
            each.unlink(missing_ok=True)

    def _check_space(self, required_bytes: int) -> None:
        """Space that other uploads still need counts as used."""
        promised_bytes = sum(upload.missing_bytes for upload in self._open)
        free_bytes = self.free_bytes()
        if free_bytes - promised_bytes - required_bytes < self._limits.min_free_bytes:
            raise UploadRefused(Refusal.NO_SPACE, f"no space for {required_bytes} more bytes", retry_after_s=300)

    def free_bytes(self) -> int:
        status = os.statvfs(self._folder)
        return status.f_bavail * status.f_frsize


def _modified_s(path: Path) -> float:
    with suppress(FileNotFoundError):
        return path.stat().st_mtime
    return 0.0
