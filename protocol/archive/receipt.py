"""Receipts: the collector's signed statement that it has stored an archive. Only then the device deletes it."""

from collections.abc import Callable
from dataclasses import dataclass

from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

from protocol import strict_cbor
from protocol.archive.limits import RECEIPT_BOUNDS
from protocol.archive.manifest import DIGEST_BYTES
from protocol.binding import ED25519_KEY_BYTES
from protocol.checks import check_length, check_within
from protocol.errors import Unsupported
from protocol.ethereum import ADDRESS_BYTES
from protocol.losses import MAX_POSITION
from protocol.reference import MAX_TIMESTAMP_MS
from protocol.strict_cbor import field

VERSION = 1
SIGNATURE_BYTES = 64
_SIGNED_AS = b"headgate receipt 1\n"
_NAMES = ("version", "archive", "size_bytes", "device", "received_at_ms", "collector_key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """A receipt with a valid signature by the collector key it names. `covers` checks that it is the expected key."""

    archive: bytes  # SHA-256 of the file as it was received, encrypted or not
    size_bytes: int
    device: bytes
    received_at_ms: int  # by the collector's clock
    collector_key: bytes  # Ed25519, public
    signature: bytes

    def __post_init__(self) -> None:
        check_length("archive", self.archive, DIGEST_BYTES)
        check_length("device", self.device, ADDRESS_BYTES)
        check_length("collector_key", self.collector_key, ED25519_KEY_BYTES)
        check_length("signature", self.signature, SIGNATURE_BYTES)
        check_within("size_bytes", self.size_bytes, 0, MAX_POSITION)
        check_within("received_at_ms", self.received_at_ms, 0, MAX_TIMESTAMP_MS)
        try:
            VerifyKey(self.collector_key).verify(_SIGNED_AS + strict_cbor.encode(self._body()), self.signature)
        except BadSignatureError as error:
            raise ValueError("the receipt is not signed by the key it names") from error

    def covers(self, *, archive: bytes, size_bytes: int, device: bytes, collector_key: bytes) -> bool:
        """Whether this collector has stored this file of this device. Only then the device may delete it."""
        stated = (self.archive, self.size_bytes, self.device, self.collector_key)
        return stated == (archive, size_bytes, device, collector_key)

    def to_bytes(self) -> bytes:
        return strict_cbor.encode({**self._body(), "signature": self.signature})

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
                received_at_ms=field(found["received_at_ms"], int),
                collector_key=field(found["collector_key"], bytes),
                signature=field(found["signature"], bytes),
            )

    def _body(self) -> dict[str, strict_cbor.CborValue]:
        return _receipt_body(self.archive, self.size_bytes, self.device, self.received_at_ms, self.collector_key)


def sign_receipt(
    *,
    archive: bytes,
    size_bytes: int,
    device: bytes,
    received_at_ms: int,
    collector_key: bytes,
    sign: Callable[[bytes], bytes],
) -> Receipt:
    """Make a receipt. `sign` returns the Ed25519 signature of a message by the collector's key."""
    body = _receipt_body(archive, size_bytes, device, received_at_ms, collector_key)
    return Receipt(
        archive=archive,
        size_bytes=size_bytes,
        device=device,
        received_at_ms=received_at_ms,
        collector_key=collector_key,
        signature=sign(_SIGNED_AS + strict_cbor.encode(body)),
    )


def _receipt_body(
    archive: bytes, size_bytes: int, device: bytes, received_at_ms: int, collector_key: bytes
) -> dict[str, strict_cbor.CborValue]:
    values = (VERSION, archive, size_bytes, device, received_at_ms, collector_key)
    return dict(zip(_NAMES, values, strict=True))
