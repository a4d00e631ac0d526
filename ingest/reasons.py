"""The reasons for quarantine. Released values never change meaning, because tables and reports contain them."""

from enum import StrEnum

from protocol.streamr.stream_message.signing import Verdict


class Reason(StrEnum):
    # a whole archive
    ARCHIVE_CORRUPT = "archive corrupt"
    ARCHIVE_TRUNCATED = "archive truncated"
    ARCHIVE_UNSUPPORTED = "archive unsupported"
    ARCHIVE_MISNAMED = "archive misnamed"  # its name is not the digest of its content
    ARCHIVE_ENCRYPTED = "archive encrypted"  # and none of the given keys decrypts it
    DEVICE_UNKNOWN = "device unknown"  # the archive is valid, but its device is not on the allow-list
    DEVICE_MISMATCH = "device mismatch"  # encrypted, and uploaded by another device than the one that signed it
    # a block of an archive
    BLOCK_DAMAGED = "block damaged"
    # one record
    NOT_A_MESSAGE = "not a stream message"
    MISFILED = "misfiled"  # its reference or chain differs from what the archive states for it
    FOREIGN_PUBLISHER = "foreign publisher"
    UNSIGNED = "unsigned"
    SIGNATURE_MALFORMED = "signature malformed"
    SIGNATURE_FORGED = "signature forged"
    SIGNATURE_UNCHECKABLE = "signature uncheckable"
    UNDECRYPTABLE = "undecryptable"  # with the key for its key id
    CONTENT_UNREADABLE = "content unreadable"
    CHAIN_ID_MALFORMED = "chain id malformed"  # it may contain part of another signed field
    HASH_MISMATCH = "hash mismatch"
    LINK_BROKEN = "link broken"  # a reading of a pack does not continue from the reading before it
    READINGS_MISCOUNTED = "readings miscounted"  # the archive states another number of readings than the message has
    TIME_OUT_OF_RANGE = "time out of range"


SIGNATURE_REASONS = {
    Verdict.UNSIGNED: Reason.UNSIGNED,
    Verdict.MALFORMED: Reason.SIGNATURE_MALFORMED,
    Verdict.FOREIGN: Reason.SIGNATURE_FORGED,
    Verdict.UNCHECKABLE: Reason.SIGNATURE_UNCHECKABLE,
}


class Quarantined(Exception):
    """The input must be quarantined. The decoder catches it; it never leaves this package."""

    def __init__(self, reason: Reason, detail: str, *, offset: int | None = None) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.offset = offset
