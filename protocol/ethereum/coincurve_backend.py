"""secp256k1 by libsecp256k1, called through coincurve's own binding.

coincurve's classes parse and copy too much for a hot loop, and do not verify a compact signature by a known key, so its
binding is called directly, and its functions are looked up once. The binding releases the interpreter's lock during a
call, so no memory that the library writes to may be shared between threads: a length cell in use by two calls at once
makes the library end the process. Every call therefore uses its own set of buffers from a pool and returns it
afterwards (`list.pop` and `list.append` are atomic). The only other foreign memory is the library's context, which
these functions only read.
"""

from collections.abc import Sequence
from itertools import repeat
from typing import Any, Final

import coincurve
from coincurve._libsecp256k1 import ffi, lib
from coincurve.context import GLOBAL_CONTEXT

from protocol.ethereum.curve import (
    DIGEST_BYTES,
    PRIVATE_KEY_BYTES,
    PUBLIC_KEY_BYTES,
    SIGNATURE_BYTES,
    V_OFFSET,
    V_VALUES,
)

_UNCOMPRESSED: Final = b"\x04"  # the byte in front of x ‖ y
_UNCOMPRESSED_BYTES: Final = 1 + PUBLIC_KEY_BYTES
_INVALID_SIGNATURE: Final = bytes(SIGNATURE_BYTES)
_V: Final = tuple(bytes([V_OFFSET + recovery_id]) for recovery_id in range(4))

_CONTEXT: Final = GLOBAL_CONTEXT.ctx
_NULL: Final = ffi.NULL
_INT: Final = ffi.typeof("int *")
_CHAR_65: Final = ffi.typeof("char[65]")
_PUBLIC_KEY: Final = ffi.typeof("secp256k1_pubkey *")
_SIGNATURE: Final = ffi.typeof("secp256k1_ecdsa_signature *")
_SIGNATURES: Final = ffi.typeof("secp256k1_ecdsa_signature[]")
_RECOVERABLE: Final = ffi.typeof("secp256k1_ecdsa_recoverable_signature *")
_SIZE: Final = ffi.typeof("size_t *")

_new: Final = ffi.new
_sign_recoverable: Final = lib.secp256k1_ecdsa_sign_recoverable
_serialize_recoverable: Final = lib.secp256k1_ecdsa_recoverable_signature_serialize_compact
_parse_recoverable: Final = lib.secp256k1_ecdsa_recoverable_signature_parse_compact
_recover: Final = lib.secp256k1_ecdsa_recover
_serialize_public_key: Final = lib.secp256k1_ec_pubkey_serialize
_AS_UNCOMPRESSED: Final = lib.SECP256K1_EC_UNCOMPRESSED
_parse_compact: Final = lib.secp256k1_ecdsa_signature_parse_compact
_verify: Final = lib.secp256k1_ecdsa_verify


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
        return self.sign_all([digest])[0]

    def sign_all(self, digests: Sequence[bytes]) -> list[bytes]:
        buffers = signature, _, written, recovery_id, written_bytes, _, _ = _take_buffers()
        secret, signed = self._secret, []
        for digest in digests:
            if len(digest) != DIGEST_BYTES:
                raise _wrong_digest(digest)
            if not _sign_recoverable(_CONTEXT, signature, digest, secret, _NULL, _NULL):
                raise AssertionError("libsecp256k1 refuses to sign with a key it accepted")
            _serialize_recoverable(_CONTEXT, written, recovery_id, signature)
            written[64] = _V[recovery_id[0]]
            signed.append(written_bytes[:])
        _buffer_pool.append(buffers)
        return signed


class CoincurvePublicKey:
    __slots__ = ("_key",)

    def __init__(self, public_key: bytes) -> None:
        if len(public_key) != PUBLIC_KEY_BYTES:
            raise ValueError(f"a public key has {PUBLIC_KEY_BYTES} bytes, not {len(public_key)}")
        self._key = _new(_PUBLIC_KEY)
        if not lib.secp256k1_ec_pubkey_parse(_CONTEXT, self._key, _UNCOMPRESSED + public_key, _UNCOMPRESSED_BYTES):
            raise ValueError("the public key is not a point on the curve")

    def verify(self, digest: bytes, signature: bytes) -> bool:
        if len(digest) != DIGEST_BYTES:
            raise _wrong_digest(digest)
        if len(signature) != SIGNATURE_BYTES:
            return False
        buffers = _take_buffers()
        parsed = buffers[5]
        holds = _parse_compact(_CONTEXT, parsed, signature) and _verify(_CONTEXT, parsed, digest, self._key)
        _buffer_pool.append(buffers)
        return bool(holds)

    def verify_all(self, digests: Sequence[bytes], signatures: Sequence[bytes]) -> list[bool]:
        """Parse all signatures, then verify them all without any Python code in between.

        The curve's tables fill the processor's caches; other code between two verifications would displace them. A
        signature that cannot be parsed is replaced by one that no key can have made.
        """
        for digest in digests:
            if len(digest) != DIGEST_BYTES:
                raise _wrong_digest(digest)
        parsed = _new(_SIGNATURES, len(signatures))
        places = [parsed + index for index in range(len(signatures))]
        for place, signature in zip(places, signatures, strict=True):
            _parse_compact(_CONTEXT, place, signature if len(signature) == SIGNATURE_BYTES else _INVALID_SIGNATURE)
        return list(map(bool, map(_verify, repeat(_CONTEXT), places, digests, repeat(self._key))))


class CoincurveBackend:
    def load_private_key(self, secret: bytes) -> CoincurvePrivateKey:
        return CoincurvePrivateKey(secret)

    def load_public_key(self, public_key: bytes) -> CoincurvePublicKey:
        return CoincurvePublicKey(public_key)

    def recover(self, digest: bytes, signature: bytes) -> bytes | None:
        if len(digest) != DIGEST_BYTES:
            raise _wrong_digest(digest)
        if len(signature) != SIGNATURE_BYTES or signature[64] not in V_VALUES:
            return None  # libsecp256k1 would read on, or end the process
        buffers = parsed, key, written, _, written_bytes, _, written_length = _take_buffers()
        public_key: bytes | None = None
        if _parse_recoverable(_CONTEXT, parsed, signature, signature[64] - V_OFFSET) and _recover(
            _CONTEXT, key, parsed, digest
        ):
            written_length[0] = _UNCOMPRESSED_BYTES  # the library reads it as the size of the buffer, then writes it
            _serialize_public_key(_CONTEXT, written, written_length, key, _AS_UNCOMPRESSED)
            public_key = written_bytes[1:]
        _buffer_pool.append(buffers)
        return public_key


# The memory that the library writes to: recoverable signature, public key, 65 bytes for either, recovery id, a view of
# these bytes, plain signature, length of a serialized public key
_Buffers = tuple[Any, Any, Any, Any, Any, Any, Any]
_buffer_pool: Final[list[_Buffers]] = []  # as many as were ever in use at once


def _take_buffers() -> _Buffers:
    try:
        return _buffer_pool.pop()
    except IndexError:
        written = _new(_CHAR_65)
        view = ffi.buffer(written)
        return _new(_RECOVERABLE), _new(_PUBLIC_KEY), written, _new(_INT), view, _new(_SIGNATURE), _new(_SIZE)


def _wrong_digest(digest: bytes) -> ValueError:
    return ValueError(f"a digest has {DIGEST_BYTES} bytes, not {len(digest)}")
