"""Keccak-256, the EIP-191 digest and addresses.

    digest  = keccak256("\\x19Ethereum Signed Message:\\n" ‖ decimal byte length of the payload ‖ payload)
    address = the last 20 bytes of keccak256(x ‖ y), (x, y) being the public key

Keccak-256 comes from tiny-keccak (the fastest of those measured in `benchmarks/bench_streamr.py`) or, where that has no
wheel, from pycryptodome.
"""

from typing import Final

try:
    from tiny_keccak import keccak256
except ImportError:
    from protocol.ethereum.portable_keccak import keccak256  # type: ignore[assignment]  # the argument's name

__all__ = [
    "ADDRESS_BYTES",
    "EIP191_MAGIC",
    "address_of",
    "checksum_address",
    "eip191_digest",
    "eip191_digests",
    "is_address",
    "keccak256",
]

ADDRESS_BYTES: Final = 20

_ADDRESS_CHARACTERS: Final = 2 + 2 * ADDRESS_BYTES
_LOWER_HEX_DIGITS: Final = frozenset("0123456789abcdef")
EIP191_MAGIC: Final = b"\x19Ethereum Signed Message:\n"


def eip191_digest(payload: bytes, *, claimed_length: int | None = None) -> bytes:
    """The digest that is signed for a text. `claimed_length` is for signers that count something else than bytes."""
    return keccak256(b"%b%d%b" % (EIP191_MAGIC, len(payload) if claimed_length is None else claimed_length, payload))


def eip191_digests(payloads: bytes, payload_bytes: int) -> list[bytes]:
    """The digests of many payloads of the same length, given one after the other."""
    head = b"%b%d" % (EIP191_MAGIC, payload_bytes)
    starts = range(0, len(payloads), payload_bytes)
    return [keccak256(head + payloads[start : start + payload_bytes]) for start in starts]


def address_of(public_key: bytes) -> str:
    """The address of a public key (x ‖ y, 64 bytes), in lower case with 0x."""
    return "0x" + keccak256(public_key)[-ADDRESS_BYTES:].hex()


def checksum_address(address: str | bytes) -> str:
    """The address in the mixed case of EIP-55, which reveals a mistyped digit.

    Raises: ValueError unless it is 20 bytes, or 0x and 40 hex digits.
    """
    text = f"0x{address.hex()}" if isinstance(address, bytes) else address
    if not is_address(text):
        raise ValueError("an address is 0x and 40 hex digits")
    digits = text[2:].lower()
    pattern = keccak256(digits.encode()).hex()
    marked = zip(digits, pattern, strict=False)
    return "0x" + "".join(digit.upper() if int(mark, 16) >= 8 else digit for digit, mark in marked)


def is_address(text: str) -> bool:
    """Whether the text is 0x and 40 hex digits, in any case. The checksum of mixed case is not checked."""
    return len(text) == _ADDRESS_CHARACTERS and text.startswith("0x") and _LOWER_HEX_DIGITS.issuperset(text[2:].lower())
