"""The upload protocol between a device and a collector: paths, headers, claims and refusals. No I/O.

    HEAD  /archives/<sha256>              → 200, Upload-Offset: bytes stored so far; Upload-Complete: ?1 if that is all
    PUT   /archives/<sha256>              → from the first byte; an unfinished upload is discarded
    PATCH /archives/<sha256>              → from the byte that Upload-Offset names, which must be where it stopped
    GET   /receipts/<sha256>              → 200 and the receipt, once the archive is stored
    PUT   /logs/<log>/checkpoint          → 200 and the answer: how much of the log the collector holds

The last one carries a checkpoint, which its signature authenticates. Each of the others carries a claim,
`Authorization: Headgate <claim>`: the device's signed statement that it offers this archive to this collector. A PUT
or PATCH of an archive carries all missing bytes or a part of them. The response to the last part (201), and to any
later upload of the same archive (200), is the receipt; to an earlier part, 202 with the new Upload-Offset. All other
responses are refusals with a code of the table below. Details: `docs/wire-formats.md`.
"""

import base64
import binascii
import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from protocol import strict_cbor
from protocol.binding import Binding
from protocol.checks import check_length, check_within
from protocol.devicelog.entry import LogEntry
from protocol.ed25519 import KEY_BYTES, check_signature
from protocol.errors import Corrupt, Unsupported
from protocol.strict_cbor import CborBounds, CborValue, field

ARCHIVES_PATH: Final = "/archives/"
RECEIPTS_PATH: Final = "/receipts/"
LOGS_PATH: Final = "/logs/"
CHECKPOINT_PATH_END: Final = "/checkpoint"
CHECKPOINT_SUFFIX: Final = ".checkpoint"  # of the file with the newest checkpoint of a log
FORKED_SUFFIX: Final = ".forked"  # of an empty file that marks a log as forked

UPLOAD_OFFSET: Final = "Upload-Offset"
UPLOAD_COMPLETE: Final = "Upload-Complete"
COMPLETE: Final = "?1"  # booleans of RFC 9651
INCOMPLETE: Final = "?0"

CONTENT_TYPE_PART: Final = "application/partial-upload"
CONTENT_TYPE_PROBLEM: Final = "application/problem+json"
CONTENT_TYPE_RECEIPT: Final = "application/cbor"
CONTENT_TYPE_CHECKPOINT: Final = "application/cbor"  # also of the answer

MAX_ARCHIVE_BYTES: Final = 2**40  # of a claim; the limit of a collector is far lower
MAX_RECEIPT_BYTES: Final = 1024
MAX_CLAIM_CHARACTERS: Final = 4096  # below the head of a request that a collector accepts

CLAIM_VERSION = 3
DIGEST_BYTES = 32
_SCHEME = "Headgate "
_SIGNED_AS = b"headgate claim 3\n"  # no other signature of the same key is valid for a claim
_NAMES = ("version", "archive", "size_bytes", "entry", "device", "archive_key", "binding", "collector_key")
_BOUNDS = CborBounds(max_bytes=MAX_CLAIM_CHARACTERS * 3 // 4, max_items=512, max_depth=4)
_DIGEST = re.compile("[0-9a-f]{64}")
_OFFSET = re.compile("0|[1-9][0-9]{0,12}")
_CHECKPOINT_PATH = re.compile(f"{LOGS_PATH}([0-9a-f]{{32}}){CHECKPOINT_PATH_END}")
_LOG_NAME = re.compile("([0-9a-f]{40})-([0-9a-f]{32})")


class Reaction(Enum):
    """What a device does about a refusal. It never deletes the archive: only a receipt allows that."""

    RETRY = "retry later, with increasing waits"
    ASK_OFFSET = "request the offset by HEAD, and continue from that byte"
    START_OVER = "send it again from the first byte"
    SET_ASIDE = "store it, do not send it again, continue with the next"
    ASK_OPERATOR = "report it to the operator, and retry now and then"
    BEGIN_LOG = "begin a new log, and archive its records again there"


class Refusal(Enum):
    """Every reason for which a collector refuses a request. The value is the `code` in the body of the response."""

    code: str
    status: int
    reaction: Reaction

    def __new__(cls, code: str, status: int, reaction: Reaction) -> "Refusal":
        member = object.__new__(cls)
        member._value_ = code
        member.code, member.status, member.reaction = code, status, reaction
        return member

    BAD_REQUEST = ("bad-request", 400, Reaction.ASK_OPERATOR)
    BAD_LENGTH = ("bad-length", 400, Reaction.ASK_OFFSET)
    CLAIM_MISSING = ("claim-missing", 401, Reaction.ASK_OPERATOR)
    CLAIM_INVALID = ("claim-invalid", 401, Reaction.ASK_OPERATOR)
    CHECKPOINT_INVALID = ("checkpoint-invalid", 401, Reaction.ASK_OPERATOR)
    OTHER_COLLECTOR = ("other-collector", 403, Reaction.ASK_OPERATOR)
    DEVICE_UNKNOWN = ("device-unknown", 403, Reaction.ASK_OPERATOR)
    DEVICE_REVOKED = ("device-revoked", 403, Reaction.ASK_OPERATOR)
    KEY_UNCONFIRMED = ("key-unconfirmed", 403, Reaction.ASK_OPERATOR)
    TOO_MANY_LOGS = ("too-many-logs", 403, Reaction.ASK_OPERATOR)
    NOT_FOUND = ("not-found", 404, Reaction.ASK_OPERATOR)
    NOT_STORED = ("not-stored", 404, Reaction.ASK_OFFSET)
    METHOD_NOT_ALLOWED = ("method-not-allowed", 405, Reaction.ASK_OPERATOR)
    TOO_SLOW = ("too-slow", 408, Reaction.RETRY)
    OFFSET_MISMATCH = ("offset-mismatch", 409, Reaction.ASK_OFFSET)
    TAKEN_OVER = ("taken-over", 409, Reaction.ASK_OFFSET)
    LOG_FORKED = ("log-forked", 409, Reaction.BEGIN_LOG)
    LENGTH_REQUIRED = ("length-required", 411, Reaction.ASK_OPERATOR)
    TOO_LARGE = ("too-large", 413, Reaction.ASK_OPERATOR)
    DIGEST_MISMATCH = ("digest-mismatch", 422, Reaction.START_OVER)
    ARCHIVE_INVALID = ("archive-invalid", 422, Reaction.SET_ASIDE)
    ENCRYPTED_FOR_ANOTHER = ("encrypted-for-another", 422, Reaction.ASK_OPERATOR)
    TOO_MANY_REQUESTS = ("too-many-requests", 429, Reaction.RETRY)
    HEAD_TOO_LARGE = ("head-too-large", 431, Reaction.ASK_OPERATOR)
    FAULT = ("fault", 500, Reaction.RETRY)
    BUSY = ("busy", 503, Reaction.RETRY)
    NO_SPACE = ("no-space", 507, Reaction.RETRY)


def reaction_to(status: int, code: str | None) -> Reaction:
    """What to do about an unsuccessful response, also from a proxy or a collector of a later version."""
    for refusal in Refusal:
        if refusal.code == code:
            return refusal.reaction
    return Reaction.RETRY if status >= 500 or status in (408, 429) else Reaction.ASK_OPERATOR


def archive_path(sha256: bytes) -> str:
    return ARCHIVES_PATH + sha256.hex()


def receipt_path(sha256: bytes) -> str:
    return RECEIPTS_PATH + sha256.hex()


def digest_in_path(path: str, prefix: str) -> bytes | None:
    """The digest that is named after `prefix`, exactly as `archive_path` and `receipt_path` write it, or None."""
    name = path.removeprefix(prefix)
    return bytes.fromhex(name) if name != path and _DIGEST.fullmatch(name) else None


def offset_in_header(text: str) -> int:
    """Raises: Corrupt unless it is a plain decimal number."""
    if not _OFFSET.fullmatch(text):
        raise Corrupt(f"{UPLOAD_OFFSET} {text[:32]!r} is not a number of bytes")
    return int(text)


def checkpoint_path(log: bytes) -> str:
    return f"{LOGS_PATH}{log.hex()}{CHECKPOINT_PATH_END}"


def log_in_path(path: str) -> bytes | None:
    """The log whose checkpoint the path names, exactly as `checkpoint_path` writes it, or None."""
    found = _CHECKPOINT_PATH.fullmatch(path)
    return None if found is None else bytes.fromhex(found[1])


def checkpoint_name(device: bytes, log: bytes) -> str:
    """The name of the file that holds the newest checkpoint of a log, in a directory with the archives."""
    return f"{device.hex()}-{log.hex()}{CHECKPOINT_SUFFIX}"


def forked_name(device: bytes, log: bytes) -> str:
    """The name of the file with which the collector marks a log as forked, for the ingest."""
    return f"{device.hex()}-{log.hex()}{FORKED_SUFFIX}"


def log_in_name(name: str, suffix: str = CHECKPOINT_SUFFIX) -> tuple[bytes, bytes] | None:
    """Device and log in the name of a file, exactly as `checkpoint_name` or `forked_name` writes it, or None."""
    found = _LOG_NAME.fullmatch(name.removesuffix(suffix)) if name.endswith(suffix) else None
    return None if found is None else (bytes.fromhex(found[1]), bytes.fromhex(found[2]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimStatement:
    """What a claim states, before it is signed. Valid on construction: raises ValueError."""

    binding: Binding
    archive: bytes  # SHA-256 of the file as it is sent, encrypted or not
    size_bytes: int
    entry: LogEntry  # as in the manifest, which the collector cannot read if the archive is encrypted
    collector_key: bytes  # Ed25519, public; another collector refuses the claim

    def __post_init__(self) -> None:
        check_length("archive", self.archive, DIGEST_BYTES)
        check_within("size_bytes", self.size_bytes, 1, MAX_ARCHIVE_BYTES)
        check_length("collector_key", self.collector_key, KEY_BYTES)

    @property
    def device(self) -> bytes:
        return self.binding.address

    def body(self) -> dict[str, CborValue]:
        return {
            **self.binding.to_entries(),
            "version": CLAIM_VERSION,
            "archive": self.archive,
            "size_bytes": self.size_bytes,
            "entry": self.entry.to_cbor(),
            "collector_key": self.collector_key,
        }

    def bytes_to_sign(self) -> bytes:
        return _SIGNED_AS + strict_cbor.encode(self.body())


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadClaim(ClaimStatement):
    """“This device offers this archive to this collector.” The signature is checked on construction."""

    signature: bytes  # by the archive key of the binding

    def __post_init__(self) -> None:
        ClaimStatement.__post_init__(self)
        check_signature("claim", self.binding.archive_key, self.bytes_to_sign(), self.signature)

    def to_bytes(self) -> bytes:
        return strict_cbor.encode({**self.body(), "signature": self.signature})

    @classmethod
    def from_bytes(cls, data: bytes) -> "UploadClaim":
        """Raises: WireError, also when a signature is wrong."""
        with strict_cbor.invalid_is_corrupt("claim"):
            found = strict_cbor.fields(strict_cbor.decode(data, _BOUNDS), *_NAMES, "signature")
            if found["version"] != CLAIM_VERSION:
                raise Unsupported(f"version {found['version']!r}, this reader knows {CLAIM_VERSION}")
            return cls(
                binding=Binding.from_entries(found),
                archive=field(found["archive"], bytes),
                size_bytes=field(found["size_bytes"], int),
                entry=LogEntry.from_cbor(found["entry"]),
                collector_key=field(found["collector_key"], bytes),
                signature=field(found["signature"], bytes),
            )

    def to_header(self) -> str:
        """The value of the Authorization header."""
        return _SCHEME + base64.urlsafe_b64encode(self.to_bytes()).decode()

    @classmethod
    def from_header(cls, value: str) -> "UploadClaim":
        """Raises: WireError for anything but what `to_header` writes."""
        if not value.startswith(_SCHEME) or len(value) > MAX_CLAIM_CHARACTERS:
            raise Corrupt(f"the authorization is not {_SCHEME.strip()} and a claim")
        try:
            data = base64.b64decode(value[len(_SCHEME) :], altchars=b"-_", validate=True)
        except (binascii.Error, ValueError) as error:
            raise Corrupt("the claim is not base64 in the alphabet for URLs") from error
        return cls.from_bytes(data)


def sign_claim(statement: ClaimStatement, sign: Callable[[bytes], bytes]) -> UploadClaim:
    """Make a claim. `sign` returns the Ed25519 signature of a message by the binding's archive key."""
    stated = {each.name: getattr(statement, each.name) for each in dataclasses.fields(ClaimStatement)}
    return UploadClaim(**stated, signature=sign(statement.bytes_to_sign()))
