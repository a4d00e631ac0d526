"""The statement that ties a device's archive key to its address, signed by the address.

headgate binding 1 ‖ address (20 bytes) ‖ archive key (32 bytes), as a `Statement`
"""

from dataclasses import dataclass

from protocol.ethereum import (
    ADDRESS_BYTES,
    SIGNATURE_BYTES,
    Signer,
    Statement,
    address_of,
    default_backend,
)

KIND = "binding 1"
ED25519_KEY_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """“This address signs its archives with this key.” A binding that exists is true: the signature is checked."""

    address: bytes
    archive_key: bytes  # Ed25519, public
    signature: bytes

    def __post_init__(self) -> None:
        for name, length in (
            ("address", ADDRESS_BYTES),
            ("archive_key", ED25519_KEY_BYTES),
            ("signature", SIGNATURE_BYTES),
        ):
            if len(getattr(self, name)) != length:
                raise ValueError(f"{name} of {len(getattr(self, name))} bytes, not {length}")
        statement = binding_statement(self.address, self.archive_key)
        signer = default_backend().recover(statement.digest, self.signature)
        if signer is None or address_of(signer) != f"0x{self.address.hex()}":
            raise ValueError(f"the binding is not signed by 0x{self.address.hex()}")


def binding_statement(address: bytes, archive_key: bytes) -> Statement:
    return Statement(KIND, address + archive_key)


def sign_binding(identity: Signer, archive_key: bytes) -> Binding:
    address = bytes.fromhex(identity.address.removeprefix("0x"))
    signature = identity.sign_statement(binding_statement(address, archive_key))
    return Binding(address=address, archive_key=archive_key, signature=signature)
