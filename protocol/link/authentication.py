"""Authentication of frames: each carries a counter and a tag that only the other end of this session can make.

Both ends hold a pre-shared key. The host draws a nonce for every SYNC; the device responds with its boot id, which it
never uses twice, and with the number of SYNCs since its boot. The session key is derived from all three, so frames of
an earlier session are not valid in this one. The tag is keyed BLAKE2s of 8 bytes over direction, header, payload and
counter: a frame cannot be reflected, because the direction differs, nor replayed, because the counter only rises.
"""

import hashlib
import hmac
from dataclasses import replace
from enum import IntEnum
from typing import Final

from protocol.checks import check_length
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
    """The key of one session, from the nonce of the SYNC and the boot id and SYNC count of the HELLO that followed."""
    check_length("pre-shared key", pre_shared_key, KEY_BYTES)
    check_length("host_nonce", host_nonce, HOST_NONCE_BYTES)
    check_length("boot_id", boot_id, BOOT_ID_BYTES)
    material = _LABEL + host_nonce + boot_id + syncs.to_bytes(4, "little")
    return hashlib.blake2s(material, key=pre_shared_key, digest_size=KEY_BYTES).digest()


class Authenticator:
    """One end of one session: adds a proof to each frame it sends and checks those it receives."""

    def __init__(self, session_key: bytes, *, sends: Direction) -> None:
        self._key = session_key
        self._sends = sends
        self._receives = Direction(1 - sends)
        self._next_sent = 0
        self._next_received = 0

    @property
    def is_exhausted(self) -> bool:
        """Whether no counter is left; then begin a new session."""
        return self._next_sent > MAX_COUNTER

    def prove(self, frame: Frame) -> Frame:
        """The frame with its proof. Raises: ValueError when exhausted."""
        if self.is_exhausted:
            raise ValueError("the session has used all its counters; begin a new one")
        proof = Proof(self._next_sent, _NO_TAG)
        self._next_sent += 1
        return replace(frame, proof=proof._replace(tag=self._tag(replace(frame, proof=proof), self._sends)))

    def check(self, frame: Frame) -> None:
        """Raises: Corrupt unless the other end made this frame in this session, after all frames checked before."""
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
