"""What makes a message one that the node takes. Pure functions: the clock, the stream and the verdict are arguments."""

from typing import Final

from node.errors import ErrorCode, Refused
from node.streams import Stream, key_exchange_owner
from protocol.streamr import EncryptionType, MessageType, SignatureType, StreamMessage
from protocol.streamr.ethereum import is_address
from protocol.streamr.signing import Verdict

__all__ = [
    "MAX_AHEAD_MS",
    "check_key_exchange",
    "check_settings",
    "check_signature",
    "check_timestamp",
    "check_unsigned_author",
]

MAX_AHEAD_MS: Final = 300_000  # how far a publisher's clock may be ahead of ours


def check_timestamp(message: StreamMessage, now_ms: int) -> None:
    """Raises: `Refused`, FUTURE_TIMESTAMP."""
    if message.message_id.timestamp > now_ms + MAX_AHEAD_MS:
        raise Refused(ErrorCode.FUTURE_TIMESTAMP, f"Future timestamps are not allowed, max allowed +{MAX_AHEAD_MS} ms")


def check_settings(message: StreamMessage, stream: Stream) -> None:
    """What the stream demands of its messages. Raises: `Refused`."""
    if message.message_type is not MessageType.MESSAGE:
        raise _failed(f"{message.message_type.name} belongs on a key exchange stream")
    if message.message_id.stream_partition >= stream.partitions:
        raise _failed(f"partition {message.message_id.stream_partition} is not below {stream.partitions}")
    if stream.require_signed_data and message.signature_type is SignatureType.NONE:
        raise _failed("this stream takes signed messages only")
    if stream.require_encrypted_data and message.encryption_type is EncryptionType.NONE:
        raise _failed("this stream takes encrypted messages only")


def check_key_exchange(message: StreamMessage) -> None:
    """What is passed on to the owner of a key exchange stream. Raises: `Refused`."""
    if key_exchange_owner(message.message_id.stream_id) is None or message.message_id.stream_partition != 0:
        raise _failed("keys are exchanged on partition 0 of a key exchange stream")
    if message.message_type is MessageType.MESSAGE:
        raise _failed("a key exchange stream takes key exchange messages only")
    if message.signature_type is SignatureType.NONE:
        raise _failed("key exchange messages must be signed")


def check_signature(verdict: Verdict) -> None:
    """A message need not be signed here, but what is signed must verify. Raises: `Refused`."""
    if not verdict and verdict is not Verdict.UNSIGNED:
        raise _failed(f"the signature does not hold: {verdict.value}")


def check_unsigned_author(message: StreamMessage, user: str) -> None:
    """Nobody speaks in another's name without a signature. Raises: `Refused`, PERMISSION_DENIED."""
    publisher = message.message_id.publisher_id.lower()
    if is_address(publisher) and publisher != user:
        raise Refused(
            ErrorCode.PERMISSION_DENIED, f"{user or 'anonymous'} may not publish unsigned messages of {publisher}"
        )


def _failed(problem: str) -> Refused:
    return Refused(ErrorCode.REQUEST_FAILED, f"Publish request failed: {problem}")
