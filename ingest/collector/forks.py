"""The evidence of forks: `forks/<device>/<log>/`, what contradicts the log that the collector holds.

    <sha256>.hga, <sha256>.claim    an archive that was refused, and the device's signed claim to it
    <sha256>.checkpoint             two checkpoints that contradict each other

Nothing here is ever used, only stored for the operator, and so its amount is limited for each device: beyond the limit
a fork is still noticed and refused, but no more evidence of this device is stored.
"""

import os
import shutil
from pathlib import Path
from typing import Final

from protocol.shipping import CHECKPOINT_SUFFIX, UploadClaim
from runtime.durable_files import PRIVATE_DIRECTORY, PRIVATE_FILE, make_directory, replace_file, sync_directory

ARCHIVE_SUFFIX: Final = ".hga"
CLAIM_SUFFIX: Final = ".claim"
MAX_FILES_PER_DEVICE: Final = 256
COPY_BYTES: Final = 1024 * 1024


class ForkEvidence:
    def __init__(self, folder: Path, *, max_bytes_per_device: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes_per_device

    def holds(self, claim: UploadClaim) -> bool:
        return self._path(claim.device, claim.entry.log, claim.archive, ARCHIVE_SUFFIX).exists()

    def has_space(self, claim: UploadClaim) -> bool:
        return self._fits(claim.device, claim.size_bytes, len(claim.to_bytes()))

    def store_archive(self, upload: Path, claim: UploadClaim) -> bool:
        """Copy it, with its claim. Durable when this returns. False if there is no space for it. Raises: OSError."""
        if self.holds(claim):
            return True
        if not self.has_space(claim):
            return False
        path = self._path(claim.device, claim.entry.log, claim.archive, ARCHIVE_SUFFIX)
        make_directory(path.parent, mode=PRIVATE_DIRECTORY)
        replace_file(path.with_suffix(CLAIM_SUFFIX), claim.to_bytes())
        _copy_durably(upload, path)
        return True

    def store_checkpoint(self, device: bytes, log: bytes, sha256: bytes, data: bytes) -> None:
        """Durable when this returns, if there is space for it. Raises: OSError."""
        path = self._path(device, log, sha256, CHECKPOINT_SUFFIX)
        if not path.exists() and self._fits(device, len(data)):
            make_directory(path.parent, mode=PRIVATE_DIRECTORY)
            replace_file(path, data)

    def _fits(self, device: bytes, *sizes: int) -> bool:
        """Whether files of these sizes may be added."""
        stored = [path.stat().st_size for path in self._folder.glob(f"{device.hex()}/*/*")]
        return len(stored) + len(sizes) <= MAX_FILES_PER_DEVICE and sum(stored) + sum(sizes) <= self._max_bytes

    def _path(self, device: bytes, log: bytes, sha256: bytes, suffix: str) -> Path:
        return self._folder / device.hex() / log.hex() / f"{sha256.hex()}{suffix}"


def _copy_durably(source: Path, target: Path) -> None:
    """The state may be on another file system than the uploads, so that a file cannot be renamed."""
    temporary = target.with_name(f".{target.name}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE_FILE)
    with source.open("rb") as original, os.fdopen(descriptor, "wb") as copy:
        shutil.copyfileobj(original, copy, COPY_BYTES)
        copy.flush()
        os.fsync(copy.fileno())
    temporary.replace(target)
    sync_directory(target.parent)
