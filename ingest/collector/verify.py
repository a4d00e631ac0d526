"""Whether a file is the archive that a claim names, to its last byte, and signed by the device.

    digest    the whole file hashes to its name
    sealed    it is sealed for this collector; what is in it shows only at ingest
    open      header, manifest and signature are true, the device is the claim's, and each block is the one it signed

Blocks are hashed, never decompressed: a bomb in one costs nothing here, and the ingest judges what they hold. Memory is
a manifest's (bounded by the format) and one buffer's, whatever the file.
"""

import hashlib
import os
from pathlib import Path

from ingest.collector.errors import Refused
from protocol.archive import is_sealed, open_archive, sealed_for
from protocol.archive.sealing import ENVELOPE_BYTES
from protocol.errors import WireError
from protocol.ethereum import checksum_address
from protocol.shipping import Refusal, UploadClaim

READ_BYTES = 256 * 1024


def verify_archive(path: Path, claim: UploadClaim, sealing_key: bytes) -> None:
    """Raises: Refused if it is not what the claim says, OSError if it cannot be read."""
    with path.open("rb", buffering=0) as file:
        stored = _StoredFile(file.fileno())
        _check_digest(stored, claim)
        try:
            if is_sealed(stored.read_at(0, ENVELOPE_BYTES)):
                _check_sealed(stored, sealing_key)
            else:
                _check_open(stored, claim)
        except WireError as error:
            raise Refused(Refusal.ARCHIVE_INVALID, str(error)) from error


class _StoredFile:
    """A file to be looked at in any place. Hashing goes through one buffer, since new memory would cost as much."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = memoryview(bytearray(READ_BYTES))

    @property
    def size_bytes(self) -> int:
        return os.fstat(self._descriptor).st_size

    def read_at(self, offset: int, count: int) -> bytes:
        return os.pread(self._descriptor, count, offset)

    def digest_of(self, start: int, count: int) -> bytes:
        sha256 = hashlib.sha256()
        for offset in range(start, start + count, READ_BYTES):
            piece = self._buffer[: min(READ_BYTES, start + count - offset)]
            sha256.update(piece[: os.preadv(self._descriptor, [piece], offset)])
        return sha256.digest()


def _check_digest(stored: _StoredFile, claim: UploadClaim) -> None:
    if stored.size_bytes != claim.size_bytes:
        raise Refused(Refusal.DIGEST_MISMATCH, f"{stored.size_bytes} bytes, not {claim.size_bytes}")
    found = stored.digest_of(0, claim.size_bytes)
    if found != claim.archive:
        raise Refused(Refusal.DIGEST_MISMATCH, f"the bytes received hash to {found.hex()}; begin anew")


def _check_sealed(stored: _StoredFile, sealing_key: bytes) -> None:
    recipient = bytes(sealed_for(stored.read_at(0, ENVELOPE_BYTES)))
    if recipient != sealing_key:
        raise Refused(Refusal.SEALED_FOR_ANOTHER, f"sealed for the key {recipient.hex()}, not for {sealing_key.hex()}")


def _check_open(stored: _StoredFile, claim: UploadClaim) -> None:
    archive = open_archive(stored.read_at, claim.size_bytes)
    if archive.header.binding.address != claim.device:
        owner = checksum_address(archive.header.binding.address)
        raise Refused(Refusal.ARCHIVE_INVALID, f"an archive of {owner}, brought by {checksum_address(claim.device)}")
    for index, entry in enumerate(archive.manifest.blocks):
        if stored.digest_of(entry.offset, entry.frame_bytes) != entry.sha256:
            raise Refused(Refusal.ARCHIVE_INVALID, f"block {index} is not the one that the device signed")
