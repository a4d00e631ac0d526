"""The signer: the only object that holds a private key.

No function signs arbitrary text. Each purpose has its own function, and nothing that one of them signs is accepted by
another.

| function | signs | EIP-191 version |
|---|---|---|
| `sign_message` | the payload of a StreamMessage: a digit is in front of the publisher's address | 0x45 |
| `sign_challenge` | the login challenge of a node: one of two fixed texts and a short token | 0x45 |
| `sign_statement` | a statement of Headgate, such as a binding | 0x00 |
"""

from typing import Final, NoReturn

from protocol.ethereum.hashing import address_of, eip191_digest
from protocol.ethereum.login_challenge import is_challenge
from protocol.ethereum.secp256k1 import Backend, default_backend
from protocol.ethereum.statement import Statement

_DIGITS: Final = frozenset("0123456789")


class Signer:
    """Signs messages, logins and statements with one secp256k1 key.

    The key is in no repr and no error, and the signer cannot be pickled or copied.
    """

    __slots__ = ("_key", "address", "public_key", "sign_message_digests")

    def __init__(self, secret: bytes, *, backend: Backend | None = None) -> None:
        """Raises ValueError, without the secret, unless it is 32 bytes of a valid key."""
        self._key = (backend or default_backend()).load_private_key(secret)
        self.sign_message_digests = self._key.sign_all  # of payloads that this program built; each → r ‖ s ‖ v
        self.public_key = self._key.public_key  # x ‖ y, 64 bytes
        self.address = address_of(self.public_key)  # lower case, with 0x

    def sign_message(self, payload: str) -> str:
        """The signature over the payload of a StreamMessage: 0x and the lower-case hex of r ‖ s ‖ v, v being 27 or 28.

        Raises ValueError unless the payload can be that of a message of this publisher.
        """
        if not self._is_publisher_in(payload):
            raise ValueError(f"not the payload of a message of {self.address}")
        return self._sign_text(payload)

    def sign_challenge(self, text: str) -> str:
        """The signature of a node's login challenge, written as that of a message.

        Raises ValueError for every other text.
        """
        if not is_challenge(text, self.address):
            raise ValueError("not a login challenge of a Streamr node")
        return self._sign_text(text)

    def sign_statement(self, statement: Statement) -> bytes:
        """r ‖ s ‖ v."""
        return self._key.sign(statement.digest)

    def _sign_text(self, text: str) -> str:
        return "0x" + self._key.sign(eip191_digest(text.encode())).hex()

    def _is_publisher_in(self, payload: str) -> bool:
        """Whether the address follows a digit, as the publisher's does in a payload."""
        found = payload.find(self.address, 1)
        while found > 0:
            if payload[found - 1] in _DIGITS:
                return True
            found = payload.find(self.address, found + 1)
        return False

    def __repr__(self) -> str:
        address = getattr(self, "address", None)  # absent while the constructor runs, as in a traceback
        return f"Signer(address={address!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Signer holds a private key and is not copied, pickled or sent anywhere")
