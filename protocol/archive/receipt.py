"""Receipts: the collector's signed statement that it has stored an archive. Only then the device deletes it."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from protocol import strict_cbor
from protocol.archive.limits import RECEIPT_BOUNDS
from protocol.archive.manifest import DIGEST_BYTES
from protocol.checks import check_length, check_within
from protocol.devicelog.entry import LOG_ID_BYTES
from protocol.devicelog.frontier import MAX_LOG_SIZE
from protocol.devicelog.merkle import EMPTY_ROOT
from protocol.ed25519 import KEY_BYTES, check_signature
from protocol.errors import Unsupported
from protocol.ethereum import ADDRESS_BYTES
from protocol.losses import MAX_POSITION
from protocol.reference import MAX_TIMESTAMP_MS
from protocol.strict_cbor import CborValue, field

VERSION = 2
_SIGNED_AS = b"headgate receipt 2\n"
_NAMES = (
    *("version", "archive", "size_bytes", "device", "log", "number", "held_size", "held_root"),
    *("received_at_ms", "collector_key"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptStatement:
    """What a receipt states, before it is signed. Valid on construction: raises ValueError."""

    archive: bytes  # SHA-256 of the file as it was received, encrypted or not
    size_bytes: int
    device: bytes
    log: bytes  # of the archive's entry
    number: int
    held_size: int  # archives of the log that the collector holds without a hole, from number 0
    held_root: bytes  # of those
    received_at_ms: int  # by the collector's clock
    collector_key: bytes  # Ed25519, public

    def __post_init__(self) -> None:
        check_length("archive", self.archive, DIGEST_BYTES)
        check_within("size_bytes", self.size_bytes, 0, MAX_POSITION)
        check_length("device", self.device, ADDRESS_BYTES)
        check_length("log", self.log, LOG_ID_BYTES)
        check_within("number", self.number, 0, MAX_LOG_SIZE - 1)
        check_within("held_size", self.held_size, 0, MAX_LOG_SIZE)
        check_length("held_root", self.held_root, DIGEST_BYTES)
        if self.held_size == 0 and self.held_root != EMPTY_ROOT:
            raise ValueError("the root of an empty log is the SHA-256 of nothing")
        check_within("received_at_ms", self.received_at_ms, 0, MAX_TIMESTAMP_MS)
        check_length("collector_key", self.collector_key, KEY_BYTES)

    def body(self) -> dict[str, CborValue]:
        return {
            "version": VERSION,
            "archive": self.archive,
            "size_bytes": self.size_bytes,
            "device": self.device,
            "log": self.log,
            "number": self.number,
            "held_size": self.held_size,
            "held_root": self.held_root,
            "received_at_ms": self.received_at_ms,
            "collector_key": self.collector_key,
        }

    def bytes_to_sign(self) -> bytes:
        return _SIGNED_AS + strict_cbor.encode(self.body())


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt(ReceiptStatement):
    """A receipt with a valid signature by the collector key it names. `covers` checks that it is the expected key."""

    signature: bytes

    def __post_init__(self) -> None:
        ReceiptStatement.__post_init__(self)
        check_signature("receipt", self.collector_key, self.bytes_to_sign(), self.signature)

    def covers(self, *, archive: bytes, size_bytes: int, device: bytes, collector_key: bytes) -> bool:
        """Whether this collector has stored this file of this device. Only then the device may delete it."""
        stated = (self.archive, self.size_bytes, self.device, self.collector_key)
        return stated == (archive, size_bytes, device, collector_key)

    def to_bytes(self) -> bytes:
        return strict_cbor.encode({**self.body(), "signature": self.signature})

    @classmethod
    def from_bytes(cls, data: bytes) -> "Receipt":
        """Raises: WireError, also when the signature is wrong."""
        with strict_cbor.invalid_is_corrupt("receipt"):
            found = strict_cbor.fields(strict_cbor.decode(data, RECEIPT_BOUNDS), *_NAMES, "signature")
            if found["version"] != VERSION:
                raise Unsupported(f"version {found['version']!r}, this reader knows {VERSION}")
            return cls(
                archive=field(found["archive"], bytes),
                size_bytes=field(found["size_bytes"], int),
                device=field(found["device"], bytes),
                log=field(found["log"], bytes),
                number=field(found["number"], int),
                held_size=field(found["held_size"], int),
                held_root=field(found["held_root"], bytes),
                received_at_ms=field(found["received_at_ms"], int),
                collector_key=field(found["collector_key"], bytes),
                signature=field(found["signature"], bytes),
            )


def unsigned(receipt: Receipt) -> ReceiptStatement:
    """What the receipt states, to be signed by another key."""
    return ReceiptStatement(**{each.name: getattr(receipt, each.name) for each in dataclasses.fields(ReceiptStatement)})


def sign_receipt(statement: ReceiptStatement, sign: Callable[[bytes], bytes]) -> Receipt:
    """Make a receipt. `sign` returns the Ed25519 signature of a message by the collector's key."""
    stated = {each.name: getattr(statement, each.name) for each in dataclasses.fields(ReceiptStatement)}
    return Receipt(**stated, signature=sign(statement.bytes_to_sign()))
