"""Fast writer of the signed messages of one chain, in version 32: the agent's hot path.

The bytes equal those of `sign_message(StreamMessage(...), signer).serialize()`, at a third of the cost beside the
signature itself. A run of messages with one timestamp, whose contents differ in a part that JSON need not escape, costs
half of that again: two joins, a hash, a signature.
"""

from binascii import hexlify
from collections.abc import Sequence
from functools import lru_cache
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
_MAX_INTEGER: Final = 2**53 - 1
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
        "_signed_chain",
        "_signed_start",
        "_stream_id",
        "_written_chain",
        "_written_start",
    )

    def __init__(self, signer: Signer, *, stream_id: str, stream_partition: int = 0, msg_chain_id: str) -> None:
        """Raises ValueError, naming the field, if no message can have such an id."""
        MessageID(stream_id, stream_partition, 0, 0, signer.address, msg_chain_id)
        self._sign, self._sign_digests = signer.sign_message, signer.sign_message_digests
        self._stream_id, self._partition = stream_id, stream_partition
        self._publisher_id, self._chain_id = signer.address, msg_chain_id
        self._payload_start = f"{stream_id}{stream_partition}"
        self._payload_chain = f"{signer.address}{msg_chain_id}"
        self._signed_start, self._signed_chain = self._payload_start.encode(), self._payload_chain.encode()
        stream, publisher, chain = map(_encode, (stream_id, signer.address, msg_chain_id))
        self._written_start = b"[%d,[%b,%d," % (_VERSION, stream, stream_partition)
        self._written_chain = b",%b,%b]," % (publisher, chain)

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
            raise _not_older(prev, ref)
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
        self, contents: Sequence[tuple[tuple[str, str], bytes]], ref: MessageRef, prev: MessageRef | None
    ) -> list[bytes]:
        """Signed messages of one timestamp, each after the previous one; the first has `ref`, and follows `prev`.

        A content is two texts and the body between them. A body is ASCII that JSON does not escape: no quotes, no
        backslashes, no control characters. That is not checked; base64 is such a text.

        Raises ValueError, naming the field, if the messages are invalid.
        """
        if prev is not None and prev >= ref:
            raise _not_older(prev, ref)
        if max(ref.timestamp, ref.sequence_number + len(contents) - 1) > _MAX_INTEGER:
            raise FieldError("message", f"cannot be written as JSON: {ref[:]} is above {_MAX_INTEGER}")
        time = b"%d" % ref.timestamp
        signed_start, signed_chain = self._signed_start + time, self._signed_chain
        start, chain, previous_start = self._written_start + time + b",", self._written_chain, b"[" + time + b","
        signed_prev, written_prev = (b"", b"null") if prev is None else (b"%d%d" % prev, b"[%d,%d]" % prev)
        digests, unsigned, known = [], [], None
        for sequence, (around, body) in enumerate(contents, ref.sequence_number):
            if around is not known:
                known, (signed_before, signed_after, before, after) = around, _texts_around(around)
                shared_bytes = len(signed_start) + len(signed_chain) + len(signed_before) + len(signed_after)
            number = b"%d" % sequence
            size = b"%d" % (shared_bytes + len(number) + len(signed_prev) + len(body))
            signed = (signed_start, number, signed_chain, signed_prev, signed_before, body, signed_after)
            digests.append(keccak256(b"".join((EIP191_MAGIC, size, *signed))))  # `eip191_digest`, without a copy
            unsigned.append((start, number, chain, written_prev, before, body, after))
            signed_prev, written_prev = time + number, previous_start + number + b"]"
        signatures = map(hexlify, self._sign_digests(digests))
        return [b"".join((*parts, each, b'"]')) for parts, each in zip(unsigned, signatures, strict=True)]


@lru_cache(maxsize=8)
def _texts_around(around: tuple[str, str]) -> tuple[bytes, bytes, bytes, bytes]:
    """What stands before and after a body: in the payload that is signed, and in the message."""
    before, after = around
    return (
        before.encode(),
        after.encode(),
        b",%d,%d,%d,null,%b" % (_MESSAGE, _JSON, _NOT_ENCRYPTED, _encode(before)[:-1]),
        b'%b,null,%d,"0x' % (_encode(after)[1:], _ETH),
    )


def _not_older(prev: MessageRef, ref: MessageRef) -> FieldError:
    return FieldError("prev_msg_ref", f"{prev[:]} is not older than the message, {ref[:]}")


def _encode(value: object) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_STRICT_INTEGER)
    except orjson.JSONEncodeError as problem:  # a number above 2^53 - 1
        raise FieldError("message", f"cannot be written as JSON: {problem}") from None
