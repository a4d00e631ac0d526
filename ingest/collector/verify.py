"""Whether a file is the archive that a claim names, to its last byte, and signed by the device.

    digest    the whole file hashes to its name
    sealed    it is sealed for this collector; what is in it shows only at ingest
    open      header, manifest and signature are true, the device is the claim's, and each block is the one it signed

Blocks are hashed, never decompressed: a bomb in one costs nothing here, and the ingest judges what they hold. Memory is
a manifest's (bounded by the format) and one buffer's, whatever the file.
"""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from ingest.collector.errors import Refused
from protocol.archive import BlockEntry, is_sealed, open_archive, sealed_for
from protocol.archive.eth_address import checksum_address
from protocol.archive.sealing import ENVELOPE_BYTES
from protocol.errors import WireError
from protocol.shipping import Refusal, UploadClaim

READ_BYTES = 256 * 1024

ReadAt = Callable[[int, int], bytes]


def verify_archive(path: Path, claim: UploadClaim, sealing_key: bytes) -> None:
    """Raises: Refused if it is not what the claim says, OSError if it cannot be read."""
    with path.open("rb", buffering=0) as file:
        _check_digest(file.fileno(), claim)
        read_at = _reader_of(file.fileno())
        try:
            if is_sealed(read_at(0, ENVELOPE_BYTES)):
                _check_sealed(read_at, sealing_key)
            else:
                _check_open(read_at, claim)
        except WireError as error:
            raise Refused(Refusal.ARCHIVE_INVALID, str(error)) from error


def _reader_of(descriptor: int) -> ReadAt:
    return lambda offset, count: os.pread(descriptor, count, offset)


def _check_digest(descriptor: int, claim: UploadClaim) -> None:
    size_bytes = os.fstat(descriptor).st_size
    if size_bytes != claim.size_bytes:
        raise Refused(Refusal.DIGEST_MISMATCH, f"{size_bytes} bytes, not {claim.size_bytes}")
    found = _digest_of(_reader_of(descriptor), 0, size_bytes)
    if found != claim.archive:
        raise Refused(Refusal.DIGEST_MISMATCH, f"the bytes received hash to {found.hex()}; begin anew")


def _check_sealed(read_at: ReadAt, sealing_key: bytes) -> None:
    recipient = bytes(sealed_for(read_at(0, ENVELOPE_BYTES)))
    if recipient != sealing_key:
        raise Refused(Refusal.SEALED_FOR_ANOTHER, f"sealed for the key {recipient.hex()}, not for {sealing_key.hex()}")


def _check_open(read_at: ReadAt, claim: UploadClaim) -> None:
    archive = open_archive(read_at, claim.size_bytes)
    if archive.header.binding.address != claim.device:
        owner = checksum_address(archive.header.binding.address)
        raise Refused(Refusal.ARCHIVE_INVALID, f"an archive of {owner}, brought by {checksum_address(claim.device)}")
    for index, entry in enumerate(archive.manifest.blocks):
        _check_block(read_at, index, entry)


def _check_block(read_at: ReadAt, index: int, entry: BlockEntry) -> None:
    if _digest_of(read_at, entry.offset, entry.frame_bytes) != entry.sha256:
        raise Refused(Refusal.ARCHIVE_INVALID, f"block {index} is not the one that the device signed")


def _digest_of(read_at: ReadAt, start: int, count: int) -> bytes:
    sha256 = hashlib.sha256()
    for offset in range(start, start + count, READ_BYTES):
        sha256.update(read_at(offset, min(READ_BYTES, start + count - offset)))
    return sha256.digest()
