"""The streams that key exchange messages travel on, and how ours are put on them."""

from typing import Final

from protocol.ethereum.signer import Signer
from protocol.streamr.group_key_messages import GroupKeyMessage
from protocol.streamr.ids import MessageID, MessageRef, next_message_ref
from protocol.streamr.signing import sign_message
from protocol.streamr.stream_message import EncryptionType, StreamMessage
from protocol.streamr.stream_parts import MessageType

__all__ = ["Outbox", "key_exchange_recipient", "key_exchange_stream_id"]

KEY_EXCHANGE_PREFIX: Final = "SYSTEM/keyexchange/"

_WITH_KEYS: Final = frozenset({MessageType.GROUP_KEY_RESPONSE, MessageType.GROUP_KEY_ANNOUNCE})


def key_exchange_stream_id(address: str) -> str:
    """Where to write to the owner of this address."""
    return KEY_EXCHANGE_PREFIX + address.lower()


def key_exchange_recipient(stream_id: str) -> str | None:
    """Whom the messages of this stream are for; None where it is not for key exchange."""
    return stream_id.removeprefix(KEY_EXCHANGE_PREFIX).lower() if stream_id.startswith(KEY_EXCHANGE_PREFIX) else None


class Outbox:
    """Makes signed messages of contents. All of them form one strictly increasing chain, whomever they go to."""

    def __init__(self, signer: Signer, msg_chain_id: str) -> None:
        self.address = signer.address
        self._signer = signer
        self._msg_chain_id = msg_chain_id
        self._last_ref: MessageRef | None = None

    def post(
        self,
        content: GroupKeyMessage,
        recipient: str,
        now_ms: int,
        *,
        version: int,
        rsa_public_key: str | None = None,
    ) -> StreamMessage:
        """With keys in the content, `rsa_public_key` is what they are encrypted with; version 32 names it.

        A message refers to no previous one: each recipient sees only some of the chain.
        """
        ref = self._last_ref = next_message_ref(self._last_ref, now_ms)
        message = StreamMessage(
            message_id=MessageID(
                key_exchange_stream_id(recipient),
                0,
                *ref,
                publisher_id=self.address,
                msg_chain_id=self._msg_chain_id,
            ),
            message_type=content.message_type,
            encryption_type=EncryptionType.RSA if content.message_type in _WITH_KEYS else EncryptionType.NONE,
            group_key_id=rsa_public_key if version == 32 else None,
            content=content.serialize(),
            version=version,
        )
        return sign_message(message, self._signer)
