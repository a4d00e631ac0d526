"""Decides whether a message may be published: the rules, and the order in which they are checked, cheapest first.

The rules are pure functions: the clock, the stream and the verdict on the signature are arguments.
"""

from collections.abc import Callable
from typing import Final

from node.errors import ErrorCode, Refused
from node.limits import MAX_AHEAD_MS
from node.permissions.registry import Registry
from node.streams import Operation, Stream, key_exchange_owner
from protocol.ethereum.hashing import is_address
from protocol.iomessage.content import carries_io_message
from protocol.publisher_chain import REFRAMED, is_chain_id
from protocol.streamr.stream_message import EncryptionType, MessageType, SignatureType, StreamMessage
from protocol.streamr.stream_message.signing import Verdict, Verifier

MAX_CHAIN_ID_CHARACTERS: Final = 64  # clients use 20


class Admission:
    def __init__(self, registry: Registry, clock_ms: Callable[[], int]) -> None:
        self._registry = registry
        self._clock_ms = clock_ms
        self._verifier = Verifier()

    def admit(self, message: StreamMessage, user: str) -> None:
        """Check a message. A signed message belongs to its signer, an unsigned one to the user that sends it.

        Raises: `Refused`.
        """
        check_timestamp(message, self._clock_ms())
        check_chain_id(message)
        stream_id = message.message_id.stream_id
        if key_exchange_owner(stream_id):
            check_key_exchange(message)
        else:
            check_settings(message, self._registry.get(stream_id))
            self._check_author(message, user)
        check_signature(self._verifier.verify(message))

    def admit_relayed(self, message: StreamMessage) -> None:
        """Check a message that another node has admitted by its own permissions.

        The stream may be unknown here. Raises: `Refused`.
        """
        check_timestamp(message, self._clock_ms())
        check_chain_id(message)
        stream = self._registry.find(message.message_id.stream_id)
        if key_exchange_owner(message.message_id.stream_id):
            check_key_exchange(message)
        elif stream is not None:
            check_settings(message, stream)
        check_signature(self._verifier.verify(message))

    def _check_author(self, message: StreamMessage, user: str) -> None:
        stream_id = message.message_id.stream_id
        if message.signature_type is SignatureType.NONE:
            check_unsigned_author(message, user)
            author = user
        else:
            author = message.message_id.publisher_id.lower()
        if not self._registry.may(author, stream_id, Operation.PUBLISH):
            raise Refused(ErrorCode.PERMISSION_DENIED, f"You are not allowed to write to stream {stream_id}")


def check_timestamp(message: StreamMessage, now_ms: int) -> None:
    """Raises: `Refused`, FUTURE_TIMESTAMP."""
    if message.message_id.timestamp > now_ms + MAX_AHEAD_MS:
        raise Refused(ErrorCode.FUTURE_TIMESTAMP, f"Future timestamps are not allowed, max allowed +{MAX_AHEAD_MS} ms")


def check_chain_id(message: StreamMessage) -> None:
    """Checks the length of a chain id, and its form for Headgate publishers, so that it cannot contain another field.

    Raises: `Refused`.
    """
    chain_id = message.message_id.msg_chain_id
    if len(chain_id) > MAX_CHAIN_ID_CHARACTERS:
        raise _failed(f"msgChainId has {len(chain_id)} characters, more than {MAX_CHAIN_ID_CHARACTERS}")
    is_signed = message.signature_type is not SignatureType.NONE
    if is_signed and not is_chain_id(chain_id) and carries_io_message(message.content):
        raise _failed(REFRAMED)


def check_settings(message: StreamMessage, stream: Stream) -> None:
    """Checks a message against the settings of its stream. Raises: `Refused`."""
    if message.message_type is not MessageType.MESSAGE:
        raise _failed(f"{message.message_type.name} is accepted only on a key exchange stream")
    if message.message_id.stream_partition >= stream.partitions:
        raise _failed(
            f"the stream has {stream.partitions} partitions, not a partition {message.message_id.stream_partition}"
        )
    if stream.require_signed_data and message.signature_type is SignatureType.NONE:
        raise _failed("this stream accepts only signed messages")
    if stream.require_encrypted_data and message.encryption_type is EncryptionType.NONE:
        raise _failed("this stream accepts only encrypted messages")


def check_key_exchange(message: StreamMessage) -> None:
    """Checks a message on a key exchange stream. Raises: `Refused`."""
    if key_exchange_owner(message.message_id.stream_id) is None or message.message_id.stream_partition != 0:
        raise _failed("keys are exchanged only on partition 0 of a key exchange stream")
    if message.message_type is MessageType.MESSAGE:
        raise _failed("a key exchange stream accepts only key exchange messages")
    if message.signature_type is SignatureType.NONE:
        raise _failed("key exchange messages must be signed")


def check_signature(verdict: Verdict) -> None:
    """Refuses an invalid signature; an unsigned message is accepted here. Raises: `Refused`."""
    if not verdict and verdict is not Verdict.UNSIGNED:
        raise _failed(f"the signature is not valid: {verdict.value}")


def check_unsigned_author(message: StreamMessage, user: str) -> None:
    """An unsigned message must be published by its own author. Raises: `Refused`, PERMISSION_DENIED."""
    publisher = message.message_id.publisher_id.lower()
    if is_address(publisher) and publisher != user:
        raise Refused(
            ErrorCode.PERMISSION_DENIED, f"{user or 'anonymous'} may not publish unsigned messages of {publisher}"
        )


def _failed(problem: str) -> Refused:
    return Refused(ErrorCode.REQUEST_FAILED, f"Publish request failed: {problem}")
