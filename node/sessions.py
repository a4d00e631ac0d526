"""Who a client is: challenges that only the holder of a key can answer, and tokens for those who did.

Everything here is in memory, bounded, and gone after a restart; clients then log in again by themselves.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from node.errors import ErrorCode, Refused
from protocol.streamr.ethereum import address_of, eip191_digest
from protocol.streamr.secp256k1 import SIGNATURE_BYTES, default_backend

__all__ = ["CHALLENGE_LIFE_MS", "SESSION_LIFE_MS", "Challenge", "Session", "Sessions"]

CHALLENGE_LIFE_MS: Final = 5 * 60_000
SESSION_LIFE_MS: Final = 3 * 60 * 60_000
MAX_CHALLENGES: Final = 10_000
MAX_SESSIONS: Final = 100_000
TOKEN_BYTES: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    id: str
    text: str
    address: str  # in lower case: whom the challenge was made for
    expires_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    token: str
    address: str  # in lower case
    expires_at_ms: int


class Sessions:
    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self._clock_ms = clock_ms
        self._challenges: dict[str, Challenge] = {}  # the one that expires first comes first
        self._sessions: dict[str, Session] = {}  # likewise

    def challenge(self, address: str) -> Challenge:
        """A text for the holder of the address to sign, once."""
        challenge_id = secrets.token_urlsafe(TOKEN_BYTES)
        challenge = Challenge(
            id=challenge_id,
            text=f"This is a challenge created by a Headgate node, to be signed to log in: {challenge_id}",
            address=address.lower(),
            expires_at_ms=self._clock_ms() + CHALLENGE_LIFE_MS,
        )
        if len(self._challenges) >= MAX_CHALLENGES:
            del self._challenges[next(iter(self._challenges))]
        self._challenges[challenge.id] = challenge
        return challenge

    def respond(self, challenge_id: str, signature: str, address: str) -> Session:
        """A session for the one who signed the challenge. Right or wrong, the challenge is used up.

        Raises: `Refused`, AUTHENTICATION_FAILED.
        """
        challenge = self._challenges.pop(challenge_id, None)
        if challenge is None or challenge.expires_at_ms <= self._clock_ms():
            raise _failed("the challenge is unknown, used or expired")
        if address.lower() != challenge.address or _signer_of(challenge.text, signature) != challenge.address:
            raise _failed("the signature is not that of the address")
        return self.open(challenge.address)

    def open(self, address: str) -> Session:
        """A session for an address whose holder is known."""
        expires_at_ms = self._clock_ms() + SESSION_LIFE_MS
        session = Session(token=secrets.token_urlsafe(TOKEN_BYTES), address=address, expires_at_ms=expires_at_ms)
        if len(self._sessions) >= MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[session.token] = session
        return session

    def user_of(self, token: str) -> str:
        """The address that the token was given to. Raises: `Refused`, AUTHENTICATION_FAILED."""
        session = self._sessions.get(token)
        if session is None or session.expires_at_ms <= self._clock_ms():
            raise _failed("the session token is unknown or expired")
        return session.address

    def close(self, token: str) -> None:
        self._sessions.pop(token, None)

    def drop_expired(self) -> None:
        now_ms = self._clock_ms()
        for entries in (self._challenges, self._sessions):
            _drop_expired(entries, now_ms)

    def __len__(self) -> int:
        return len(self._sessions)


def _drop_expired(entries: dict[str, Challenge] | dict[str, Session], now_ms: int) -> None:
    expired = [key for key, entry in entries.items() if entry.expires_at_ms <= now_ms]
    for key in expired:
        del entries[key]


def _signer_of(text: str, signature: str) -> str | None:
    """The address that signed the text; None where the signature is no signature."""
    try:
        raw = bytes.fromhex(signature.removeprefix("0x"))
    except ValueError:
        return None
    if len(raw) != SIGNATURE_BYTES:
        return None
    key = default_backend().recover(eip191_digest(text.encode()), raw)
    return None if key is None else address_of(key)


def _failed(problem: str) -> Refused:
    return Refused(ErrorCode.AUTHENTICATION_FAILED, f"Authentication failed: {problem}")
