"""Ed25519 signatures of statements: claims, receipts, checkpoints. Each kind begins with a text of its own."""

from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

from protocol.checks import check_length

KEY_BYTES = 32
SIGNATURE_BYTES = 64


def check_signature(what: str, key: bytes, message: bytes, signature: bytes) -> None:
    """Raises: ValueError, naming what is signed, unless it is the signature of the message by this key."""
    check_length("signature", signature, SIGNATURE_BYTES)
    try:
        VerifyKey(key).verify(message, signature)
    except BadSignatureError as error:
        raise ValueError(f"the {what} is not signed by the key it names") from error
