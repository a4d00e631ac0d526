"""secp256k1 by libsecp256k1, called through coincurve's own binding.

coincurve's classes parse and copy more than a hot loop can afford (3 µs of 33) and take no compact
signature for a known key, so its binding is called directly. Every call allocates what it writes to: the
binding releases the interpreter's lock, so shared buffers would let two threads spoil each other's
signatures.
"""

from typing import Any, Final

import coincurve
from coincurve._libsecp256k1 import ffi, lib
from coincurve.context import GLOBAL_CONTEXT

from protocol.streamr.secp256k1 import DIGEST_BYTES, PRIVATE_KEY_BYTES, PUBLIC_KEY_BYTES, SIGNATURE_BYTES

__all__ = ["CoincurveBackend"]

_UNCOMPRESSED: Final = b"\x04"  # the byte in front of x ‖ y

_CONTEXT: Final = GLOBAL_CONTEXT.ctx
_NULL: Final = ffi.NULL
_INT: Final = ffi.typeof("int *")
_SIZE: Final = ffi.typeof("size_t *")
_BYTES_65: Final = ffi.typeof("unsigned char[65]")
_PUBLIC_KEY: Final = ffi.typeof("secp256k1_pubkey *")
_SIGNATURE: Final = ffi.typeof("secp256k1_ecdsa_signature *")
_RECOVERABLE: Final = ffi.typeof("secp256k1_ecdsa_recoverable_signature *")


class CoincurvePrivateKey:
    __slots__ = ("_secret", "public_key")

    def __init__(self, secret: bytes) -> None:
        if len(secret) != PRIVATE_KEY_BYTES:
            raise ValueError(f"a private key has {PRIVATE_KEY_BYTES} bytes, not {len(secret)}")
        if not lib.secp256k1_ec_seckey_verify(_CONTEXT, secret):
            raise ValueError("the private key is not in the range of the curve")
        self._secret = secret
        self.public_key: bytes = coincurve.PrivateKey(secret).public_key.format(compressed=False)[1:]

    def sign(self, digest: bytes) -> bytes:
        _check_digest(digest)
        signature, written, recovery_id = ffi.new(_RECOVERABLE), ffi.new(_BYTES_65), ffi.new(_INT)
        if not lib.secp256k1_ecdsa_sign_recoverable(_CONTEXT, signature, digest, self._secret, _NULL, _NULL):
            raise AssertionError("libsecp256k1 refuses to sign with a key it accepted")
        lib.secp256k1_ecdsa_recoverable_signature_serialize_compact(_CONTEXT, written, recovery_id, signature)
        written[64] = recovery_id[0]
        return bytes(ffi.buffer(written))


class CoincurvePublicKey:
    __slots__ = ("_key",)

    def __init__(self, public_key: bytes) -> None:
        if len(public_key) != PUBLIC_KEY_BYTES:
            raise ValueError(f"a public key has {PUBLIC_KEY_BYTES} bytes, not {len(public_key)}")
        self._key = ffi.new(_PUBLIC_KEY)
        if not lib.secp256k1_ec_pubkey_parse(
            _CONTEXT, self._key, _UNCOMPRESSED + public_key, PUBLIC_KEY_BYTES + 1
        ):
            raise ValueError("the public key is not a point on the curve")

    def verify(self, digest: bytes, signature: bytes) -> bool:
        _check_digest(digest)
        parsed = ffi.new(_SIGNATURE)
        if not _is_complete(signature) or not lib.secp256k1_ecdsa_signature_parse_compact(
            _CONTEXT, parsed, signature
        ):
            return False
        return bool(lib.secp256k1_ecdsa_verify(_CONTEXT, parsed, digest, self._key))


class CoincurveBackend:
    def load_private_key(self, secret: bytes) -> CoincurvePrivateKey:
        return CoincurvePrivateKey(secret)

    def load_public_key(self, public_key: bytes) -> CoincurvePublicKey:
        return CoincurvePublicKey(public_key)

    def recover(self, digest: bytes, signature: bytes) -> bytes | None:
        _check_digest(digest)
        parsed, key = ffi.new(_RECOVERABLE), ffi.new(_PUBLIC_KEY)
        if not _is_complete(signature) or not _parse_recoverable(parsed, signature):
            return None
        if not lib.secp256k1_ecdsa_recover(_CONTEXT, key, parsed, digest):
            return None
        written, length = ffi.new(_BYTES_65), ffi.new(_SIZE, 65)
        lib.secp256k1_ec_pubkey_serialize(_CONTEXT, written, length, key, lib.SECP256K1_EC_UNCOMPRESSED)
        return bytes(ffi.buffer(written)[1:])


def _parse_recoverable(parsed: Any, signature: bytes) -> bool:
    return bool(
        lib.secp256k1_ecdsa_recoverable_signature_parse_compact(_CONTEXT, parsed, signature, signature[64])
    )


def _is_complete(signature: bytes) -> bool:
    """libsecp256k1 reads 64 bytes whatever it is given, and ends the process on a wrong recovery id."""
    return len(signature) == SIGNATURE_BYTES and signature[64] <= 1


def _check_digest(digest: bytes) -> None:
    if len(digest) != DIGEST_BYTES:
        raise ValueError(f"a digest has {DIGEST_BYTES} bytes, not {len(digest)}")
