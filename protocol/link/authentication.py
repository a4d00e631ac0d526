"""Proof that a frame was made by the other side, in this session, by this side, and not before.

Both ends hold a pre-shared key. The host draws a nonce for every SYNC; the device answers with its boot id, which it
never uses twice, and with how many SYNCs it has taken since. All three make the session key, so neither end can be fed
what was said in an earlier session. The tag is keyed BLAKE2s of 8 bytes over direction, header, payload and counter: a
frame cannot be reflected, for the direction differs, nor replayed, for the counter only rises.
"""

import hashlib
import hmac
from dataclasses import replace
from enum import IntEnum
from typing import Final

from protocol.errors import Corrupt
from protocol.link.frame import Frame, Proof

KEY_BYTES: Final = 32
HOST_NONCE_BYTES: Final = 8
BOOT_ID_BYTES: Final = 8
TAG_BYTES: Final = 8
MAX_COUNTER: Final = 2**32 - 2

_LABEL: Final = b"headgate link 1"
_NO_TAG: Final = bytes(TAG_BYTES)


class Direction(IntEnum):
    TO_DEVICE = 0
    TO_HOST = 1


def derive_session_key(pre_shared_key: bytes, *, host_nonce: bytes, boot_id: bytes, syncs: int) -> bytes:
    """The key of one session, from the SYNC's nonce and the boot id and SYNC count of the HELLO that answered it."""
    for name, value, length in (
        ("pre-shared key", pre_shared_key, KEY_BYTES),
        ("host_nonce", host_nonce, HOST_NONCE_BYTES),
        ("boot_id", boot_id, BOOT_ID_BYTES),
    ):
        if len(value) != length:
            raise ValueError(f"{name} of {len(value)} bytes, not {length}")
    material = _LABEL + host_nonce + boot_id + syncs.to_bytes(4, "little")
    return hashlib.blake2s(material, key=pre_shared_key, digest_size=KEY_BYTES).digest()


class Authenticator:
    """One end of one session: adds a proof to what it sends and checks what it receives. Never printed with its key."""

    def __init__(self, session_key: bytes, *, sends: Direction) -> None:
        self._key = session_key
        self._sends = sends
        self._receives = Direction(1 - sends)
        self._next_sent = 0
        self._next_received = 0

    @property
    def is_exhausted(self) -> bool:
        """No counter is left: begin a new session."""
        return self._next_sent > MAX_COUNTER

    def prove(self, frame: Frame) -> Frame:
        """The frame with its proof. Raises: ValueError when exhausted."""
        if self.is_exhausted:
            raise ValueError("the session has used all its counters; begin a new one")
        proof = Proof(self._next_sent, _NO_TAG)
        self._next_sent += 1
        return replace(frame, proof=proof._replace(tag=self._tag(replace(frame, proof=proof), self._sends)))

    def check(self, frame: Frame) -> None:
        """Raises: Corrupt unless the other side made this frame in this session, after all those checked before."""
        if frame.proof is None:
            raise Corrupt(f"{frame.kind.name} is not authenticated, and the device has a key")
        if not hmac.compare_digest(frame.proof.tag, self._tag(frame, self._receives)):
            raise Corrupt(f"{frame.kind.name} is authenticated with another key, session or direction")
        if frame.proof.counter < self._next_received:
            raise Corrupt(f"{frame.kind.name} is a replay: counter {frame.proof.counter} was used before")
        self._next_received = frame.proof.counter + 1

    def _tag(self, frame: Frame, direction: Direction) -> bytes:
        assert frame.proof is not None
        covered = bytes((direction,)) + frame.covered_bytes() + frame.proof.counter.to_bytes(4, "little")
        return hashlib.blake2s(covered, key=self._key, digest_size=TAG_BYTES).digest()
