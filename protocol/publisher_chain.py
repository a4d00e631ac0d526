"""The fixed form of a Headgate publisher's `msgChainId`, and which messages must have it.

The text that a StreamMessage's signature covers has no separators, so the same text can be split into fields in several
ways: with the digits of `prevMsgRef` moved into `msgChainId`, a signed message becomes another valid message of a chain
that does not exist. After a chain id of fixed length only the reference can follow.

    msgChainId = 20 characters of A-Z a-z 0-9 - _        15 random bytes in base64 for URLs

Every message whose content is an ioMessage must have it. The node, subscribers and the ingest refuse it otherwise.
"""

from typing import Final

CHAIN_ID_RANDOM_BYTES: Final = 15
CHAIN_ID_CHARACTERS: Final = 20  # in which base64 writes them
REFRAMED: Final = (
    "its msgChainId is not of the form that Headgate publishers use; another field may have been moved into it"
)
_ALPHABET: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def is_chain_id(text: str) -> bool:
    return len(text) == CHAIN_ID_CHARACTERS and _ALPHABET.issuperset(text)
