"""The text that a Streamr node sends for a login, the only text of a node that a key ever signs.

Two forms are known, both of Streamr's own login service (github.com/streamr-dev/core-api, `ChallengeService` and
`Challenge`):

| since | text |
|---|---|
| 2018-11 (commit 8cc0e1b2c), until it ended | `_MADE_BY`, ` for address 0x…`, `_PURPOSE`, token |
| before that | `_MADE_BY`, `_PURPOSE`, token |

The address is in lower case, the token is 30 letters and digits. A Headgate node sends the first form.

Neither form can be the signed payload of a StreamMessage of the same key: there, digits stand directly in front of the
publisher's address. Here a space stands in front of it, and a token is shorter than an address.
"""

from typing import Final

__all__ = ["TOKEN_CHARACTERS", "challenge_text", "is_challenge"]

TOKEN_CHARACTERS: Final = 30
_MADE_BY: Final = "This is a challenge created by Streamr"
_PURPOSE: Final = " to prove private key ownership by signing this random data with it:\n\n"


def challenge_text(address: str, token: str) -> str:
    """The challenge for the holder of this address. Raises ValueError unless it is one that `is_challenge` accepts."""
    text = f"{_MADE_BY} for address {address.lower()}{_PURPOSE}{token}"
    if not is_challenge(text, address):
        raise ValueError(f"a token is {TOKEN_CHARACTERS} letters and digits")
    return text


def is_challenge(text: str, address: str) -> bool:
    """Whether this is exactly what a node asks the holder of this address to sign."""
    words, token = text[:-TOKEN_CHARACTERS], text[-TOKEN_CHARACTERS:]
    if not (len(token) == TOKEN_CHARACTERS and token.isascii() and token.isalnum()):
        return False
    return words in (f"{_MADE_BY} for address {address.lower()}{_PURPOSE}", f"{_MADE_BY}{_PURPOSE}")
