"""A wallet that signs any text (`personal_sign`), which a `Signer` does not."""

from protocol.ethereum import Signer, eip191_digest

__all__ = ["personal_sign"]


def personal_sign(signer: Signer, text: str | bytes) -> str:
    payload = text.encode() if isinstance(text, str) else text
    return "0x" + signer.sign_message_digests([eip191_digest(payload)])[0].hex()
