"""Login: challenges that only the holder of a key can answer, and session tokens for clients that did.

Everything here is in memory, bounded, and gone after a restart; clients then log in again by themselves.
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
    address: str  # in lower case: whom the challenge was made for
    expires_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    token: str
    address: str  # in lower case
    expires_at_ms: int


class Sessions:
    """`api_keys` are the addresses of old clients that know a key instead of signing, by the `digest_of` their key."""

    def __init__(self, clock_ms: Callable[[], int], api_keys: Mapping[bytes, str] | None = None) -> None:
        self._clock_ms = clock_ms
        self._api_keys = api_keys or {}
        self._challenges: dict[str, Challenge] = {}  # the one that expires first comes first
        self._sessions: dict[str, Session] = {}  # likewise

    def challenge(self, address: str) -> Challenge:
        """A text for the holder of the address to sign, once."""
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

    def user_of_api_key(self, key: str) -> str:
        """The address that the key stands for. Raises: `Refused`, AUTHENTICATION_FAILED."""
        user = self._api_keys.get(digest_of(key))
        if user is None:
            raise _failed("the API key is unknown")
        return user

    def close(self, token: str) -> None:
        self._sessions.pop(token, None)

    def drop_expired(self) -> None:
        now_ms = self._clock_ms()
        for entries in (self._challenges, self._sessions):
            _drop_expired(entries, now_ms)

    def __len__(self) -> int:
        return len(self._sessions)


def digest_of(key: str) -> bytes:
    """What an API key is looked up by, so that how long that takes tells nothing of the key."""
    return hashlib.sha256(key.encode(errors="surrogatepass")).digest()


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
