"""Fast writer of the signed messages of one chain, in version 32: the agent's hot path.

The bytes equal those of `sign_message(StreamMessage(...), signer).serialize()`, at a third of the cost beside the
signature itself. A run of messages with one timestamp, whose contents differ in a part that JSON need not escape, costs
half of that again: two joins, a hash, a signature.
"""

from binascii import hexlify
from collections.abc import Sequence
from typing import Final

import orjson

from protocol.ethereum.hashing import EIP191_MAGIC, keccak256
from protocol.ethereum.signer import Signer
from protocol.streamr.checks import FILLED_TEXT, OPTIONAL_TEXT, FieldError, refuse
from protocol.streamr.ids import MessageID, MessageRef
from protocol.streamr.stream_message.parts import (
    ContentType,
    EncryptedGroupKey,
    EncryptionType,
    MessageType,
    SignatureType,
)

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
        "_sign_digests",
        "_stream_id",
    )

    def __init__(self, signer: Signer, *, stream_id: str, stream_partition: int = 0, msg_chain_id: str) -> None:
        """Raises ValueError, naming the field, if no message can have such an id."""
        MessageID(stream_id, stream_partition, 0, 0, signer.address, msg_chain_id)
        self._sign, self._sign_digests = signer.sign_message, signer.sign_message_digests
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
        """The signed message in UTF-8. With a `group_key_id`, the content is encrypted with AES.

        Raises ValueError, naming the field, if the message is invalid.
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

    def write_run(
        self, bodies: Sequence[bytes], ref: MessageRef, prev: MessageRef | None, *, around: tuple[str, str]
    ) -> list[bytes]:
        """Signed messages of one timestamp, each after the previous one; the first has `ref`, and follows `prev`.

        A content is a body between the two texts `around` it. A body is ASCII that JSON does not escape: no quotes, no
        backslashes, no control characters. That is not checked; base64 is such a text.

        Raises ValueError, naming the field, if the messages are invalid.
        """
        if not bodies:
            return []
        timestamp, sequence = ref
        numbers = [b"%d" % number for number in range(sequence, sequence + len(bodies))]
        signatures = self._sign_digests(self._digests_after_first(bodies, numbers, timestamp, around))
        start, chain, before, after = self._written_parts(timestamp, around)
        parts = zip(numbers[1:], numbers, bodies[1:], map(hexlify, signatures))  # noqa: B905 - `numbers` is one longer
        return [
            self.write(bodies[0].decode().join(around), ref, prev),
            *[
                b"".join((start, number, chain, previous, before, body, after, signature, b'"]'))
                for number, previous, body, signature in parts
            ],
        ]

    def _digests_after_first(
        self, bodies: Sequence[bytes], numbers: Sequence[bytes], timestamp: int, around: tuple[str, str]
    ) -> list[bytes]:
        """The digest to sign of each message of a run but its first: `eip191_digest` of its payload, in one join."""
        start = f"{self._payload_start}{timestamp}".encode()
        chain = f"{self._payload_chain}{timestamp}".encode()
        before, after = (text.encode() for text in around)
        shared_bytes = len(start) + len(chain) + len(before) + len(after)
        digests = []
        for number, previous, body in zip(numbers[1:], numbers, bodies[1:]):  # noqa: B905 - `numbers` is one longer
            size = b"%d" % (shared_bytes + len(number) + len(previous) + len(body))
            payload = b"".join((EIP191_MAGIC, size, start, number, chain, previous, before, body, after))
            digests.append(keccak256(payload))
        return digests

    def _written_parts(self, timestamp: int, around: tuple[str, str]) -> tuple[bytes, bytes, bytes, bytes]:
        """The texts before sequence number, previous number, body and signature in all messages of a run."""
        stream, publisher, chain, before, after = (
            _encode(text).decode() for text in (self._stream_id, self._publisher_id, self._chain_id, *around)
        )
        return (
            f"[{_VERSION},[{stream},{self._partition},{timestamp},".encode(),
            f",{publisher},{chain}],[{timestamp},".encode(),
            f"],{_MESSAGE},{_JSON},{_NOT_ENCRYPTED},null,{before[:-1]}".encode(),
            f'{after[1:]},null,{_ETH},"0x'.encode(),
        )


def _encode(value: object) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_STRICT_INTEGER)
    except orjson.JSONEncodeError as problem:  # a number above 2^53 - 1
        raise FieldError("message", f"cannot be written as JSON: {problem}") from None
