"""The steps from a claim to a receipt, on the disk. Every call may block; the server makes them in worker threads.

The order is guaranteed: check all bytes → durable under the final name → durable in the state of its log → sign the
receipt → durable receipt → response. After a crash between any two of these, the same request continues from there.
"""

import time
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from nacl.signing import SigningKey

from ingest.collector.devices import AllowList
from ingest.collector.errors import UploadRefused
from ingest.collector.forks import ForkEvidence
from ingest.collector.heartbeats import Heartbeats
from ingest.collector.landing import Landing
from ingest.collector.log_state import Contradiction
from ingest.collector.logs import DeviceLog, Logs
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
        self.logs = Logs(
            folders.logs, max_logs_per_device=limits.max_logs_per_device, mark_forked=self.landing.mark_forked
        )
        self._forks = ForkEvidence(folders.forks, max_bytes_per_device=limits.max_fork_bytes_per_device)
        self.heartbeats = Heartbeats(
            self.allow_list,
            self.logs,
            self.landing,
            self._forks,
            collector_key=self.receipts.collector_key,
            sign=self.receipts.sign,
        )
        self._limits = limits
        self._encryption_key = encryption_key

    def admit(self, claim: UploadClaim) -> None:
        """Raises: UploadRefused if the claimed archive would never be accepted."""
        if claim.collector_key != self.receipts.collector_key:
            raise UploadRefused(Refusal.OTHER_COLLECTOR, f"this collector's key is {self.receipts.collector_key.hex()}")
        self.allow_list.check(claim.binding)
        if claim.size_bytes > self._limits.max_archive_bytes:
            problem = f"{claim.size_bytes} bytes, and at most {self._limits.max_archive_bytes} are accepted"
            raise UploadRefused(Refusal.TOO_LARGE, problem)

    def find_receipt(self, claim: UploadClaim) -> bytes | None:
        """The receipt of an archive that was stored before. Raises: WireError for a damaged file."""
        receipt = self.receipts.find(claim)
        if receipt is not None:
            self._note_in_log(claim)
        return receipt

    def issue_missing_receipt(self, claim: UploadClaim) -> bytes | None:
        """Sign the receipt of an archive that was stored before a crash. None if the stored file is damaged.

        An upload replaces a damaged file. Raises: UploadRefused if the archive forks its log.
        """
        stored = self.landing.path(claim.archive)
        if is_of_another_device(stored, claim):
            return None
        try:
            verify_archive(stored, claim, self._encryption_key)
        except UploadRefused:
            return None
        with self._hold_log(claim) as log:
            self._refuse_fork(log, claim, stored)
            log.prepare(claim.entry)
            self.landing.sync()
            return self._append(log, claim, now_ms())

    def begin(self, claim: UploadClaim, offset: int | None, length: int) -> UploadFile:
        """Open the part for `length` bytes from `offset`; None: from the first byte, whatever is stored.

        Raises: UploadRefused if it cannot continue from there, or would be refused when it is complete.
        """
        self._check_log(claim)
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
            with self._hold_log(claim) as log:
                self._refuse_fork(log, claim, upload)
                log.prepare(claim.entry)
                arrived_at_ms = now_ms()
                self.landing.store(upload, claim.archive, arrived_at_ms)
                return self._append(log, claim, arrived_at_ms)
        except UploadRefused:
            self.uploads.discard(claim)
            raise

    def _hold_log(self, claim: UploadClaim) -> AbstractContextManager[DeviceLog]:
        entry = claim.entry
        return self.logs.hold(claim.device, entry.log, previous_log=entry.previous_log, now_ms=now_ms())

    def _append(self, log: DeviceLog, claim: UploadClaim, arrived_at_ms: int) -> bytes:
        log.append(claim.entry, claim.archive, arrived_at_ms)
        return self.receipts.issue(claim, log.state.frontier, arrived_at_ms)

    def _check_log(self, claim: UploadClaim) -> None:
        """Raises: UploadRefused before the body is read, unless the upload is needed, be it as evidence of a fork."""
        with self._hold_log(claim) as log:
            found = log.contradiction_of(claim.entry, claim.archive)
            if found is None:
                log.check_space(claim.entry)
            elif self._forks.holds(claim) or not self._forks.has_space(claim):
                log.mark_forked(found, now_ms())
                raise _forked(found)

    def _refuse_fork(self, log: DeviceLog, claim: UploadClaim, archive: Path) -> None:
        """Raises: UploadRefused if the archive contradicts its log, after storing it as evidence."""
        found = log.contradiction_of(claim.entry, claim.archive)
        if found is not None:
            self._forks.store_archive(archive, claim)
            log.mark_forked(found, now_ms())
            raise _forked(found)

    def _note_in_log(self, claim: UploadClaim) -> None:
        """The logs may be an older copy than the receipts: then they learn again what was received."""
        with self._hold_log(claim) as log, suppress(UploadRefused):
            if log.state.holds(claim.entry.number):
                return
            found = log.contradiction_of(claim.entry, claim.archive)
            if found is not None:
                log.mark_forked(found, now_ms())
            else:
                log.prepare(claim.entry)
                log.append(claim.entry, claim.archive, now_ms())


def _forked(contradiction: Contradiction) -> UploadRefused:
    return UploadRefused(Refusal.LOG_FORKED, f"the log was continued in another way: {contradiction}")


def describe(claim: UploadClaim) -> str:
    """The fields of a claim for the log."""
    return f"device={checksum_address(claim.device)} archive={claim.archive.hex()} size_bytes={claim.size_bytes}"


def now_ms() -> int:
    return time.time_ns() // 1_000_000
