"""The agent's hot path: a message of version 32 built, signed and serialised in one go.

It gives exactly the bytes that `sign_message(StreamMessage(...), signer).serialize()` gives, for a third of
what that costs beside the signature itself: nothing is built only to be taken apart again.
"""

from typing import Final

import orjson

from protocol.ethereum.signer import Signer
from protocol.streamr.checks import FILLED_TEXT, OPTIONAL_TEXT, FieldError, refuse
from protocol.streamr.ids import MessageID, MessageRef
from protocol.streamr.stream_message import (
    ContentType,
    EncryptedGroupKey,
    EncryptionType,
    MessageType,
    SignatureType,
)

__all__ = ["ChainWriter"]

_VERSION: Final = 32
_MESSAGE: Final = int(MessageType.MESSAGE)
_JSON: Final = int(ContentType.JSON)
_NOT_ENCRYPTED: Final = int(EncryptionType.NONE)
_AES: Final = int(EncryptionType.AES)
_ETH: Final = int(SignatureType.ETH)


class ChainWriter:
    """Writes the messages of one chain. The publisher is the signer."""

    __slots__ = (
        "_chain_id",
        "_partition",
        "_payload_chain",
        "_payload_start",
        "_publisher_id",
        "_sign",
        "_stream_id",
    )

    def __init__(self, signer: Signer, *, stream_id: str, stream_partition: int = 0, msg_chain_id: str) -> None:
        """Raises ValueError, naming the field, where no message can have such an id."""
        MessageID(stream_id, stream_partition, 0, 0, signer.address, msg_chain_id)
        self._sign = signer.sign
        self._stream_id, self._partition = stream_id, stream_partition
        self._publisher_id, self._chain_id = signer.address, msg_chain_id
        self._payload_start = f"{stream_id}{stream_partition}"
        self._payload_chain = f"{signer.address}{msg_chain_id}"

    def write(
        self,
        content: str,
        ref: MessageRef,
        prev: MessageRef | None,
        *,
        group_key_id: str | None = None,
        new_group_key: EncryptedGroupKey | None = None,
    ) -> bytes:
        """The signed message in UTF-8. With a `group_key_id`, the content is what AES made of it.

        Raises ValueError, naming the field, where there can be no such message.
        """
        if type(content) is not str or not content:
            refuse("content", content, FILLED_TEXT)
        if group_key_id is not None and type(group_key_id) is not str:
            refuse("group_key_id", group_key_id, OPTIONAL_TEXT)
        if prev is not None and prev >= ref:
            raise FieldError("prev_msg_ref", f"{prev[:]} is not older than the message, {ref[:]}")
        timestamp, sequence_number = ref
        new_key = None if new_group_key is None else new_group_key.serialized
        signature = self._sign(
            f"{self._payload_start}{timestamp}{sequence_number}{self._payload_chain}"
            f"{'' if prev is None else f'{prev.timestamp}{prev.sequence_number}'}{content}{new_key or ''}"
        )
        message_id = [
            self._stream_id,
            self._partition,
            timestamp,
            sequence_number,
            self._publisher_id,
            self._chain_id,
        ]
        encryption_type = _NOT_ENCRYPTED if group_key_id is None else _AES
        return _encode(
            [
                _VERSION,
                message_id,
                None if prev is None else [prev.timestamp, prev.sequence_number],
                _MESSAGE,
                _JSON,
                encryption_type,
                group_key_id,
                content,
                new_key,
                _ETH,
                signature,
            ]
        )


def _encode(elements: list[object]) -> bytes:
    try:
        return orjson.dumps(elements, option=orjson.OPT_STRICT_INTEGER)
    except orjson.JSONEncodeError as problem:  # a number above 2^53 - 1
        raise FieldError("message", f"cannot be written as JSON: {problem}") from None
