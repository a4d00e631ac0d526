"""The few Ethereum rules that bind an archive to a device: addresses, and statements that any wallet can check."""

import coincurve
from tiny_keccak import keccak256

ADDRESS_BYTES = 20
SIGNATURE_BYTES = 65
_FIRST_V = 27  # how Ethereum writes recovery ids 0 and 1


def address_of(public_key: coincurve.PublicKey) -> bytes:
    return keccak256(public_key.format(compressed=False)[1:])[-ADDRESS_BYTES:]


def checksum_address(address: bytes) -> str:
    """The address as text, with the capitals of EIP-55 so that a mistyped digit shows."""
    digits = address.hex()
    nibbles = keccak256(digits.encode()).hex()
    return "0x" + "".join(
        digit.upper() if int(nibble, 16) >= 8 else digit for digit, nibble in zip(digits, nibbles, strict=False)
    )


def sign_statement(private_key: coincurve.PrivateKey, statement: str) -> bytes:
    """r ‖ s ‖ v over the statement as a wallet's `personal_sign` makes it; the same input gives the same bytes."""
    signature = private_key.sign_recoverable(_statement_hash(statement), hasher=None)
    return signature[:64] + bytes([signature[64] + _FIRST_V])


def recover_signer(statement: str, signature: bytes) -> bytes | None:
    """The address that signed, or None if the signature fits no key."""
    if len(signature) != SIGNATURE_BYTES or signature[64] - _FIRST_V not in (0, 1):
        return None
    recoverable = signature[:64] + bytes([signature[64] - _FIRST_V])
    try:
        key = coincurve.PublicKey.from_signature_and_message(recoverable, _statement_hash(statement), hasher=None)
    except Exception:  # noqa: BLE001 - the library raises a bare Exception for a signature that fits no key
        return None
    return address_of(key)


def _statement_hash(statement: str) -> bytes:
    text = statement.encode()
    return keccak256(b"\x19Ethereum Signed Message:\n%d%b" % (len(text), text))
