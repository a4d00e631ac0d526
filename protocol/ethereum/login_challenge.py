"""The login challenge of a Streamr node: the only text chosen by a node that a key signs.

Two forms are known, both of Streamr's own login service (github.com/streamr-dev/core-api, `ChallengeService` and
`Challenge`):

| since | text |
|---|---|
| 2018-11 (commit 8cc0e1b2c), until the service ended | `_MADE_BY`, ` for address 0x…`, `_PURPOSE`, token |
| before that | `_MADE_BY`, `_PURPOSE`, token |

The address is in lower case, the token is 30 letters and digits. A Headgate node sends the first form.

Neither form can be the signed payload of a StreamMessage of the same key: there, a digit is directly in front of the
publisher's address. Here it is a space, and a token is shorter than an address.
"""

from typing import Final

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
    """Whether this is exactly a challenge for the holder of this address."""
    statement, token = text[:-TOKEN_CHARACTERS], text[-TOKEN_CHARACTERS:]
    if not (len(token) == TOKEN_CHARACTERS and token.isascii() and token.isalnum()):
        return False
    return statement in (f"{_MADE_BY} for address {address.lower()}{_PURPOSE}", f"{_MADE_BY}{_PURPOSE}")
