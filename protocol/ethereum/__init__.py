"""Keys on secp256k1, Ethereum addresses, and signatures by EIP-191."""

from protocol.ethereum.hashing import (
    ADDRESS_BYTES,
    address_of,
    checksum_address,
    eip191_digest,
    is_address,
    keccak256,
)
from protocol.ethereum.secp256k1 import PUBLIC_KEY_BYTES, SIGNATURE_BYTES, Backend, PublicKey, default_backend
from protocol.ethereum.signer import Signer
from protocol.ethereum.statement import Statement

__all__ = [
    "ADDRESS_BYTES",
    "PUBLIC_KEY_BYTES",
    "SIGNATURE_BYTES",
    "Backend",
    "PublicKey",
    "Signer",
    "Statement",
    "address_of",
    "checksum_address",
    "default_backend",
    "eip191_digest",
    "is_address",
    "keccak256",
]
