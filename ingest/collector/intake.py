"""The steps from a claim to a receipt, on the disk. Every call may block; the server makes them in worker threads.

The order is guaranteed: check all bytes → durable under the final name → sign the receipt → durable receipt → response.
After a crash between any two of these, the same request continues from there.
"""

import time

from nacl.signing import SigningKey

from ingest.collector.devices import AllowList
from ingest.collector.errors import UploadRefused
from ingest.collector.landing import Landing
from ingest.collector.receipts import Receipts
from ingest.collector.settings import Folders, Limits
from ingest.collector.uploads import UploadFile, Uploads
from ingest.collector.verify import is_of_another_device, verify_archive
from protocol.ethereum import checksum_address
from protocol.shipping import Refusal, UploadClaim


class Intake:
    def __init__(self, folders: Folders, limits: Limits, signing_key: SigningKey, encryption_key: bytes) -> None:
        self.uploads = Uploads(folders.uploads, limits)
        self.landing = Landing(folders.landing)
        self.receipts = Receipts(folders.receipts, signing_key)
        self.allow_list = AllowList(folders.devices)
        self._limits = limits
        self._encryption_key = encryption_key

    def admit(self, claim: UploadClaim) -> None:
        """Raises: UploadRefused if the claimed archive would never be accepted."""
        if claim.collector_key != self.receipts.collector_key:
            raise UploadRefused(Refusal.OTHER_COLLECTOR, f"this collector's key is {self.receipts.collector_key.hex()}")
        self.allow_list.check(claim)
        if claim.size_bytes > self._limits.max_archive_bytes:
            problem = f"{claim.size_bytes} bytes, and at most {self._limits.max_archive_bytes} are accepted"
            raise UploadRefused(Refusal.TOO_LARGE, problem)

    def issue_missing_receipt(self, claim: UploadClaim) -> bytes | None:
        """Sign the receipt of an archive that was stored before a crash. None if the stored file is damaged.

        An upload replaces a damaged file.
        """
        stored = self.landing.path(claim.archive)
        if is_of_another_device(stored, claim):
            return None
        try:
            verify_archive(stored, claim, self._encryption_key)
        except UploadRefused:
            return None
        return self.receipts.issue(claim, now_ms())

    def begin(self, claim: UploadClaim, offset: int | None, length: int) -> UploadFile:
        """Open the part for `length` bytes from `offset`; None: from the first byte, whatever is stored.

        Raises: UploadRefused if it cannot continue from there.
        """
        expected = self.uploads.offset(claim)
        if offset is None:
            offset = 0
        elif offset != expected:
            raise UploadRefused(
                Refusal.OFFSET_MISMATCH, f"{expected} bytes are stored; continue from there", offset=expected
            )
        if offset + length > claim.size_bytes:
            problem = f"{length} bytes from {offset} are beyond the {claim.size_bytes} of the claim"
            raise UploadRefused(Refusal.BAD_LENGTH, problem, offset=expected)
        return self.uploads.open(claim, offset)

    def complete(self, claim: UploadClaim) -> bytes:
        """Check the upload, store it, and sign the receipt. Raises: UploadRefused, after deleting the upload."""
        upload = self.uploads.path(claim)
        try:
            verify_archive(upload, claim, self._encryption_key)
        except UploadRefused:
            self.uploads.discard(claim)
            raise
        arrived_at_ms = now_ms()
        self.landing.store(upload, claim.archive, arrived_at_ms)
        return self.receipts.issue(claim, arrived_at_ms)


def describe(claim: UploadClaim) -> str:
    """The fields of a claim for the log."""
    return f"device={checksum_address(claim.device)} archive={claim.archive.hex()} size_bytes={claim.size_bytes}"


def now_ms() -> int:
    return time.time_ns() // 1_000_000
