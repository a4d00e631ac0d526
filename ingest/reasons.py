"""Why something is in quarantine. Released values never change meaning: tables and reports are full of them."""

from enum import StrEnum

from protocol.streamr.stream_message.signing import Verdict

__all__ = ["SIGNATURE_REASONS", "Quarantined", "Reason"]


class Reason(StrEnum):
    # a whole archive
    ARCHIVE_CORRUPT = "archive corrupt"
    ARCHIVE_TRUNCATED = "archive truncated"
    ARCHIVE_UNSUPPORTED = "archive unsupported"
    ARCHIVE_MISNAMED = "archive misnamed"  # its name says another digest
    ARCHIVE_ENCRYPTED = "archive encrypted"  # and no key that opens it was given
    DEVICE_UNKNOWN = "device unknown"  # the archive is true, but not of a device on the allow-list
    DEVICE_MISMATCH = "device mismatch"  # another device brought it, encrypted, as its own
    # a block of an archive
    BLOCK_DAMAGED = "block damaged"
    # one record
    NOT_A_MESSAGE = "not a stream message"
    MISFILED = "misfiled"  # the archive files it under another reference or chain than its own
    FOREIGN_PUBLISHER = "foreign publisher"
    UNSIGNED = "unsigned"
    SIGNATURE_MALFORMED = "signature malformed"
    SIGNATURE_FORGED = "signature forged"
    SIGNATURE_UNCHECKABLE = "signature uncheckable"
    UNDECRYPTABLE = "undecryptable"  # with the key that was given for it
    CONTENT_UNREADABLE = "content unreadable"
    CHAIN_ID_MALFORMED = "chain id malformed"  # another field of a signed message may have been moved into it
    HASH_MISMATCH = "hash mismatch"
    TIME_OUT_OF_RANGE = "time out of range"


SIGNATURE_REASONS = {
    Verdict.UNSIGNED: Reason.UNSIGNED,
    Verdict.MALFORMED: Reason.SIGNATURE_MALFORMED,
    Verdict.FOREIGN: Reason.SIGNATURE_FORGED,
    Verdict.UNCHECKABLE: Reason.SIGNATURE_UNCHECKABLE,
}


class Quarantined(Exception):
    """What is being decoded belongs into quarantine. It never leaves the decoder."""

    def __init__(self, reason: Reason, detail: str, *, offset: int | None = None) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.offset = offset
