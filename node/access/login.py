"""Login: challenges that clients sign with their keys, and session tokens for those that did.

Everything is in bounded memory. After a restart clients log in again by themselves.
"""

import hashlib
import secrets
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from node.errors import ErrorCode, Refused
from protocol.ethereum.hashing import address_of, eip191_digest
from protocol.ethereum.login_challenge import TOKEN_CHARACTERS, challenge_text
from protocol.ethereum.secp256k1 import SIGNATURE_BYTES, default_backend

CHALLENGE_LIFE_MS: Final = 5 * 60_000
SESSION_LIFE_MS: Final = 3 * 60 * 60_000
MAX_CHALLENGES: Final = 10_000
MAX_SESSIONS: Final = 100_000
TOKEN_BYTES: Final = 32
_ALPHANUMERIC: Final = string.ascii_letters + string.digits


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    id: str
    text: str
    address: str  # in lower case; must sign the challenge
    expires_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    token: str
    address: str  # in lower case
    expires_at_ms: int


class Sessions:
    """`api_keys` are the addresses of old clients that cannot sign, by the `digest_of` of their API keys."""

    def __init__(self, clock_ms: Callable[[], int], api_keys: Mapping[bytes, str] | None = None) -> None:
        self._clock_ms = clock_ms
        self._api_keys = api_keys or {}
        self._challenges: dict[str, Challenge] = {}  # in order of expiry
        self._sessions: dict[str, Session] = {}  # in order of expiry

    def challenge(self, address: str) -> Challenge:
        """A text that the holder of the address must sign. It can be used once."""
        challenge_id = "".join(secrets.choice(_ALPHANUMERIC) for _ in range(TOKEN_CHARACTERS))
        challenge = Challenge(
            id=challenge_id,
            text=challenge_text(address, challenge_id),
            address=address.lower(),
            expires_at_ms=self._clock_ms() + CHALLENGE_LIFE_MS,
        )
        if len(self._challenges) >= MAX_CHALLENGES:
            del self._challenges[next(iter(self._challenges))]
        self._challenges[challenge.id] = challenge
        return challenge

    def respond(self, challenge_id: str, signature: str, address: str) -> Session:
        """Open a session if the signature of the challenge is valid. The challenge cannot be used again.

        Raises: `Refused`, AUTHENTICATION_FAILED.
        """
        challenge = self._challenges.pop(challenge_id, None)
        if challenge is None or challenge.expires_at_ms <= self._clock_ms():
            raise _failed("the challenge is unknown, used or expired")
        if address.lower() != challenge.address or _signer_of(challenge.text, signature) != challenge.address:
            raise _failed("the signature is not that of the address")
        return self.open(challenge.address)

    def open(self, address: str) -> Session:
        """Open a session for an authenticated address."""
        expires_at_ms = self._clock_ms() + SESSION_LIFE_MS
        session = Session(token=secrets.token_urlsafe(TOKEN_BYTES), address=address, expires_at_ms=expires_at_ms)
        if len(self._sessions) >= MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[session.token] = session
        return session

    def user_of(self, token: str) -> str:
        """The address of the session with this token. Raises: `Refused`, AUTHENTICATION_FAILED."""
        session = self._sessions.get(token)
        if session is None or session.expires_at_ms <= self._clock_ms():
            raise _failed("the session token is unknown or expired")
        return session.address

    def user_of_api_key(self, key: str) -> str:
        """The address of this API key. Raises: `Refused`, AUTHENTICATION_FAILED."""
        user = self._api_keys.get(digest_of(key))
        if user is None:
            raise _failed("the API key is unknown")
        return user

    def close(self, token: str) -> None:
        self._sessions.pop(token, None)

    def drop_expired(self) -> None:
        now_ms = self._clock_ms()
        self._challenges = {key: each for key, each in self._challenges.items() if each.expires_at_ms > now_ms}
        self._sessions = {key: each for key, each in self._sessions.items() if each.expires_at_ms > now_ms}

    def __len__(self) -> int:
        return len(self._sessions)


def digest_of(key: str) -> bytes:
    """The hash by which an API key is looked up, so that the time of the lookup reveals nothing about the key."""
    return hashlib.sha256(key.encode(errors="surrogatepass")).digest()


def _signer_of(text: str, signature: str) -> str | None:
    """The address that signed the text; None if the signature is invalid."""
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
