"""Encryption of an archive for one collector.

| bytes | content |
|---|---|
| 8 | `HGSEAL` and the version, 2 bytes |
| 32 | the collector's public key (X25519), so that it knows which of its keys decrypts this |
| 80 | the content key, in a libsodium sealed box to that key |
| 4 | length of a chunk before encryption |
| … | chunks: XChaCha20-Poly1305, each 16 bytes longer than its plaintext; all but the last are full |

The nonce of a chunk is its number (23 bytes, big-endian) and one byte, 1 for the last chunk and 0 for all others;
the 124 bytes before the chunks are the associated data of every chunk. So decryption fails if a chunk is changed,
moved, left out or missing at the end.

Encryption draws no random numbers. Content key and box are derived from a secret of the device and the archive's own
digest: the same archive always encrypts to the same file, and two different archives never share a key.
"""

import hashlib
import struct
from collections.abc import Iterator
from typing import NamedTuple

from nacl import bindings
from nacl.exceptions import CryptoError
from nacl.public import Box, PrivateKey, PublicKey, SealedBox

from protocol.archive.limits import KIBI
from protocol.errors import Corrupt, Truncated, Unsupported

MAGIC = b"HGSEAL"
VERSION = 1
CHUNK_BYTES = 64 * KIBI
MAX_CHUNK_BYTES = 1024 * KIBI

_KEY_BYTES = 32
_TAG_BYTES = bindings.crypto_aead_xchacha20poly1305_ietf_ABYTES
_NONCE_BYTES = bindings.crypto_box_NONCEBYTES
_CHUNK_NUMBER_BYTES = bindings.crypto_aead_xchacha20poly1305_ietf_NPUBBYTES - 1
_ENVELOPE = struct.Struct(">6sH32s80sI")
ENVELOPE_BYTES = _ENVELOPE.size


class EncryptionKeys(NamedTuple):
    """The two secrets of one encrypted file, masked in `repr`."""

    content_key: bytes
    box_seed: bytes

    def __repr__(self) -> str:
        return "EncryptionKeys(<secret>)"


def derive_encryption_keys(device_secret: bytes, archive_sha256: bytes, collector: PublicKey) -> EncryptionKeys:
    """Derive the keys of one archive. `device_secret` is 32 bytes; `archive_sha256` is of the unencrypted file."""
    material = hashlib.blake2b(
        archive_sha256 + bytes(collector), key=device_secret, person=b"headgate sealing"
    ).digest()
    return EncryptionKeys(material[:_KEY_BYTES], material[_KEY_BYTES:])


class Encryptor:
    """Encrypts a file piece by piece: begin() + update(piece) + update(piece) + … + finish().

    It holds at most one chunk.
    """

    def __init__(self, keys: EncryptionKeys, collector: PublicKey) -> None:
        box = _encrypt_content_key(keys, collector)
        self._envelope = _ENVELOPE.pack(MAGIC, VERSION, bytes(collector), box, CHUNK_BYTES)
        self._key = keys.content_key
        self._pending = bytearray()
        self._chunks = 0

    def begin(self) -> bytes:
        return self._envelope

    def update(self, data: bytes) -> bytes:
        """The chunks that became full. One full chunk is always held back: it may be the last."""
        self._pending += data
        encrypted = []
        while len(self._pending) > CHUNK_BYTES:
            encrypted.append(self._encrypt(bytes(self._pending[:CHUNK_BYTES]), is_last=False))
            del self._pending[:CHUNK_BYTES]
        return b"".join(encrypted)

    def finish(self) -> bytes:
        return self._encrypt(bytes(self._pending), is_last=True)

    def _encrypt(self, chunk: bytes, *, is_last: bool) -> bytes:
        nonce = _nonce(self._chunks, is_last=is_last)
        self._chunks += 1
        return bindings.crypto_aead_xchacha20poly1305_ietf_encrypt(chunk, self._envelope, nonce, self._key)


class Decryptor:
    """Decrypts a file piece by piece. It holds at most one chunk.

    It returns the plaintext in order and from the start. Only `finish` confirms that it is complete.
    """

    def __init__(self, collector: PrivateKey) -> None:
        self._collector = collector
        self._pending = bytearray()
        self._content: _Content | None = None  # None until the envelope is read

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Decrypt the chunks that became complete. Exhaust it before feeding again. Raises: WireError."""
        self._pending += data
        if self._content is None:
            if len(self._pending) < ENVELOPE_BYTES:
                return
            self._content = _open_envelope(self._take(ENVELOPE_BYTES), self._collector)
        while len(self._pending) > self._content.encrypted_chunk_bytes:
            yield self._content.decrypt(self._take(self._content.encrypted_chunk_bytes))

    def finish(self) -> bytes:
        """The last chunk. Raises: Truncated if the encrypted file is incomplete."""
        if self._content is None:
            _check_envelope_start(bytes(self._pending))
            raise Truncated("the encrypted file ends within its envelope", offset=len(self._pending))
        return self._content.decrypt_last(bytes(self._pending))

    def _take(self, count: int) -> bytes:
        taken = bytes(self._pending[:count])
        del self._pending[:count]
        return taken


class _Content:
    """The chunks after one envelope, decrypted in order."""

    def __init__(self, envelope: bytes, key: bytes, chunk_bytes: int) -> None:
        self._envelope = envelope
        self._key = key
        self._chunks = 0
        self.encrypted_chunk_bytes = chunk_bytes + _TAG_BYTES

    def decrypt(self, encrypted: bytes) -> bytes:
        chunk = self._try(encrypted, is_last=False)
        if chunk is None:
            raise Corrupt(f"encrypted chunk {self._chunks} was changed or moved", offset=self._offset())
        self._chunks += 1
        return chunk

    def decrypt_last(self, encrypted: bytes) -> bytes:
        chunk = self._try(encrypted, is_last=True)
        if chunk is not None:
            return chunk
        cut_short = len(encrypted) < self.encrypted_chunk_bytes or self._try(encrypted, is_last=False) is not None
        if cut_short:
            raise Truncated("the encrypted file ends before its last chunk", offset=self._offset() + len(encrypted))
        raise Corrupt(f"encrypted chunk {self._chunks} was changed or moved", offset=self._offset())

    def _try(self, encrypted: bytes, *, is_last: bool) -> bytes | None:
        if len(encrypted) < _TAG_BYTES:
            return None
        nonce = _nonce(self._chunks, is_last=is_last)
        try:
            return bindings.crypto_aead_xchacha20poly1305_ietf_decrypt(encrypted, self._envelope, nonce, self._key)
        except CryptoError:
            return None

    def _offset(self) -> int:
        return ENVELOPE_BYTES + self._chunks * self.encrypted_chunk_bytes


def is_encrypted(start: bytes) -> bool:
    """Whether a file that begins with these bytes is encrypted."""
    return start.startswith(MAGIC)


def encrypted_for(envelope: bytes) -> PublicKey:
    """The public key of the collector that the file is encrypted for. Raises: WireError."""
    _check_envelope_start(envelope)
    if len(envelope) < ENVELOPE_BYTES:
        raise Truncated("the encrypted file ends within its envelope", offset=len(envelope))
    return PublicKey(_ENVELOPE.unpack(envelope[:ENVELOPE_BYTES])[2])


def _encrypt_content_key(keys: EncryptionKeys, collector: PublicKey) -> bytes:
    """A libsodium sealed box (`crypto_box_seal`), with the ephemeral key pair derived from a seed instead of drawn."""
    ephemeral = PrivateKey.from_seed(keys.box_seed)
    nonce = hashlib.blake2b(bytes(ephemeral.public_key) + bytes(collector), digest_size=_NONCE_BYTES).digest()
    return bytes(ephemeral.public_key) + Box(ephemeral, collector).encrypt(keys.content_key, nonce).ciphertext


def _open_envelope(envelope: bytes, collector: PrivateKey) -> _Content:
    _check_envelope_start(envelope)
    _, _, recipient, box, chunk_bytes = _ENVELOPE.unpack(envelope)
    if recipient != bytes(collector.public_key):
        raise Unsupported(f"encrypted for the key {recipient.hex()}, not for {bytes(collector.public_key).hex()}")
    if not 1 <= chunk_bytes <= MAX_CHUNK_BYTES:
        raise Corrupt(f"chunks of {chunk_bytes} bytes, not within 1..{MAX_CHUNK_BYTES}", offset=ENVELOPE_BYTES - 4)
    try:
        key = SealedBox(collector).decrypt(box)
    except CryptoError as error:
        raise Corrupt("the content key cannot be decrypted", offset=len(MAGIC) + 2 + _KEY_BYTES) from error
    return _Content(envelope, key, chunk_bytes)


def _check_envelope_start(data: bytes) -> None:
    expected = MAGIC + VERSION.to_bytes(2, "big")
    if expected.startswith(data[: len(expected)]):
        return
    if is_encrypted(data):
        raise Unsupported(f"encrypted format {data[6:8].hex()}, this reader knows {VERSION}", offset=len(MAGIC))
    raise Corrupt("not an encrypted archive: it does not begin with HGSEAL", offset=0)


def _nonce(chunk: int, *, is_last: bool) -> bytes:
    return chunk.to_bytes(_CHUNK_NUMBER_BYTES, "big") + bytes([is_last])
