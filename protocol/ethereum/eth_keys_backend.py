"""secp256k1 by eth-keys, in pure Python where no compiled library is available.

Pure Python arithmetic does not take the same time for every key: do not sign with it where an attacker can measure
that time.
"""

from collections.abc import Sequence
from typing import Final

from eth_keys.backends import get_backend
from eth_keys.backends.base import BaseECCBackend
from eth_keys.backends.native.main import NativeECCBackend
from eth_keys.constants import SECPK1_B, SECPK1_N, SECPK1_P
from eth_keys.datatypes import PrivateKey, PublicKey, Signature
from eth_keys.exceptions import BadSignature

from protocol.ethereum.curve import (
    DIGEST_BYTES,
    PRIVATE_KEY_BYTES,
    PUBLIC_KEY_BYTES,
    SIGNATURE_BYTES,
    V_OFFSET,
)

_COORDINATE_BYTES: Final = PUBLIC_KEY_BYTES // 2


class EthKeysPrivateKey:
    __slots__ = ("_key", "public_key")

    def __init__(self, secret: bytes, arithmetic: BaseECCBackend) -> None:
        if len(secret) != PRIVATE_KEY_BYTES:
            raise ValueError(f"a private key has {PRIVATE_KEY_BYTES} bytes, not {len(secret)}")
        if not 0 < int.from_bytes(secret) < SECPK1_N:  # eth-keys checks it too, but shows the key in its error
            raise ValueError("the private key is not in the range of the curve")
        self._key = PrivateKey(secret, arithmetic)
        self.public_key: bytes = self._key.public_key.to_bytes()

    def sign(self, digest: bytes) -> bytes:
        _check_digest(digest)
        signature = self._key.sign_msg_hash(digest).to_bytes()
        return signature[:64] + bytes([signature[64] + V_OFFSET])

    def sign_all(self, digests: Sequence[bytes]) -> list[bytes]:
        return list(map(self.sign, digests))


class EthKeysPublicKey:
    __slots__ = ("_arithmetic", "_key")

    def __init__(self, public_key: bytes, arithmetic: BaseECCBackend) -> None:
        if len(public_key) != PUBLIC_KEY_BYTES:
            raise ValueError(f"a public key has {PUBLIC_KEY_BYTES} bytes, not {len(public_key)}")
        if not _is_on_curve(public_key):
            raise ValueError("the public key is not a point on the curve")
        self._key = PublicKey(public_key, arithmetic)
        self._arithmetic = arithmetic

    def verify(self, digest: bytes, signature: bytes) -> bool:
        _check_digest(digest)
        parsed = _parse_signature(signature, self._arithmetic)
        return parsed is not None and self._key.verify_msg_hash(digest, parsed)

    def verify_all(self, digests: Sequence[bytes], signatures: Sequence[bytes]) -> list[bool]:
        return [self.verify(digest, signature) for digest, signature in zip(digests, signatures, strict=True)]


class EthKeysBackend:
    """With `pure_python`, eth-keys computes in Python even where coincurve is installed."""

    def __init__(self, *, pure_python: bool = False) -> None:
        self._arithmetic = NativeECCBackend() if pure_python else get_backend()

    def load_private_key(self, secret: bytes) -> EthKeysPrivateKey:
        return EthKeysPrivateKey(secret, self._arithmetic)

    def load_public_key(self, public_key: bytes) -> EthKeysPublicKey:
        return EthKeysPublicKey(public_key, self._arithmetic)

    def recover(self, digest: bytes, signature: bytes) -> bytes | None:
        _check_digest(digest)
        parsed = _parse_signature(signature, self._arithmetic)
        if parsed is None:
            return None
        try:
            return parsed.recover_public_key_from_msg_hash(digest).to_bytes()
        except BadSignature:
            return None


def _parse_signature(signature: bytes, arithmetic: BaseECCBackend) -> Signature | None:
    if len(signature) != SIGNATURE_BYTES or signature[64] < V_OFFSET:
        return None
    try:
        return Signature(signature[:64] + bytes([signature[64] - V_OFFSET]), backend=arithmetic)
    except BadSignature:
        return None


def _is_on_curve(public_key: bytes) -> bool:
    x = int.from_bytes(public_key[:_COORDINATE_BYTES])
    y = int.from_bytes(public_key[_COORDINATE_BYTES:])
    return x < SECPK1_P and y < SECPK1_P and (y * y - x * x * x - SECPK1_B) % SECPK1_P == 0


def _check_digest(digest: bytes) -> None:
    if len(digest) != DIGEST_BYTES:
        raise ValueError(f"a digest has {DIGEST_BYTES} bytes, not {len(digest)}")
