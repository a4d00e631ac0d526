"""The statement that binds a device's archive key to its address, signed by the identity key of the address.

headgate binding 1 ‖ address (20 bytes) ‖ archive key (32 bytes), as a `Statement`
"""

from collections.abc import Mapping
from dataclasses import dataclass

from protocol.checks import check_length
from protocol.ethereum import (
    ADDRESS_BYTES,
    SIGNATURE_BYTES,
    Signer,
    Statement,
    address_of,
    default_backend,
)
from protocol.strict_cbor import CborValue, field

KIND = "binding 1"
ED25519_KEY_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """“This address signs its archives with this key.” The signature is checked on construction."""

    address: bytes
    archive_key: bytes  # Ed25519, public
    signature: bytes

    def __post_init__(self) -> None:
        check_length("address", self.address, ADDRESS_BYTES)
        check_length("archive_key", self.archive_key, ED25519_KEY_BYTES)
        check_length("signature", self.signature, SIGNATURE_BYTES)
        statement = binding_statement(self.address, self.archive_key)
        signer = default_backend().recover(statement.digest, self.signature)
        if signer is None or address_of(signer) != f"0x{self.address.hex()}":
            raise ValueError(f"the binding is not signed by 0x{self.address.hex()}")

    def to_entries(self) -> dict[str, CborValue]:
        """The entries of a CBOR map that hold the binding, in the header of an archive and in a claim."""
        return {"device": self.address, "archive_key": self.archive_key, "binding": self.signature}

    @classmethod
    def from_entries(cls, found: Mapping[str, CborValue]) -> "Binding":
        """Raises: Corrupt, ValueError."""
        return cls(
            address=field(found["device"], bytes),
            archive_key=field(found["archive_key"], bytes),
            signature=field(found["binding"], bytes),
        )


def binding_statement(address: bytes, archive_key: bytes) -> Statement:
    return Statement(KIND, address + archive_key)


def sign_binding(identity: Signer, archive_key: bytes) -> Binding:
    address = bytes.fromhex(identity.address.removeprefix("0x"))
    signature = identity.sign_statement(binding_statement(address, archive_key))
    return Binding(address=address, archive_key=archive_key, signature=signature)
