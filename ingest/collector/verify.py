"""Checks whether a file is the archive that a claim names, and is signed by the device.

    digest    the whole file hashes to its name
    encrypted it is encrypted for this collector; its contents are checked by the ingest
    open      header, manifest and signature are valid, the device and its archive key are the claim's, which the
              operator confirmed, the log entry is the claim's, and each block is the one it signed

Blocks are hashed, never decompressed, so a decompression bomb costs nothing here. Memory is bounded by one manifest
(bounded by the format) and one buffer.
"""

import hashlib
import os
from pathlib import Path

from ingest.collector.errors import UploadRefused
from protocol.archive.encryption import ENVELOPE_BYTES, encrypted_for, is_encrypted
from protocol.archive.random_access import open_archive
from protocol.errors import WireError
from protocol.ethereum import checksum_address
from protocol.shipping import Refusal, UploadClaim

READ_BYTES = 256 * 1024


def verify_archive(path: Path, claim: UploadClaim, encryption_key: bytes) -> None:
    """Raises: UploadRefused if it is not what the claim says, OSError if it cannot be read."""
    with path.open("rb", buffering=0) as file:
        stored = _StoredFile(file.fileno())
        _check_digest(stored, claim)
        try:
            if is_encrypted(stored.read_at(0, ENVELOPE_BYTES)):
                _check_recipient(stored, encryption_key)
            else:
                _check_open(stored, claim)
        except WireError as error:
            raise UploadRefused(Refusal.ARCHIVE_INVALID, str(error)) from error


def is_of_another_device(path: Path, claim: UploadClaim) -> bool:
    """Whether a stored open archive belongs to another device than the claim's, or to another archive key.

    Reads the header and the manifest only, so that requests for archives of other devices are cheap. False for a
    damaged file. Raises: OSError.
    """
    with path.open("rb", buffering=0) as file:
        stored = _StoredFile(file.fileno())
        if is_encrypted(stored.read_at(0, ENVELOPE_BYTES)):
            return False
        try:
            return open_archive(stored.read_at, stored.size_bytes).header.binding != claim.binding
        except WireError:
            return False


class _StoredFile:
    """A file with random access. Hashing reuses one buffer, since allocating would cost as much."""

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
        raise UploadRefused(Refusal.DIGEST_MISMATCH, f"{stored.size_bytes} bytes, not {claim.size_bytes}")
    found = stored.digest_of(0, claim.size_bytes)
    if found != claim.archive:
        raise UploadRefused(
            Refusal.DIGEST_MISMATCH, f"the received bytes have the SHA-256 {found.hex()}; upload the archive again"
        )


def _check_recipient(stored: _StoredFile, encryption_key: bytes) -> None:
    recipient = bytes(encrypted_for(stored.read_at(0, ENVELOPE_BYTES)))
    if recipient != encryption_key:
        raise UploadRefused(
            Refusal.ENCRYPTED_FOR_ANOTHER, f"encrypted for the key {recipient.hex()}, not for {encryption_key.hex()}"
        )


def _check_open(stored: _StoredFile, claim: UploadClaim) -> None:
    archive = open_archive(stored.read_at, claim.size_bytes)
    if archive.header.binding.address == claim.device and archive.header.binding != claim.binding:
        key = archive.header.binding.archive_key.hex()
        raise UploadRefused(
            Refusal.ARCHIVE_INVALID, f"signed with the archive key {key}, not with the one of the claim"
        )
    if archive.header.binding.address != claim.device:
        owner = checksum_address(archive.header.binding.address)
        raise UploadRefused(
            Refusal.ARCHIVE_INVALID, f"an archive of {owner}, uploaded by {checksum_address(claim.device)}"
        )
    if archive.manifest.entry != claim.entry:
        raise UploadRefused(Refusal.ARCHIVE_INVALID, "the claim states another log entry than the archive")
    for index, entry in enumerate(archive.manifest.blocks):
        if stored.digest_of(entry.offset, entry.frame_bytes) != entry.sha256:
            raise UploadRefused(Refusal.ARCHIVE_INVALID, f"block {index} is not the one that the device signed")
