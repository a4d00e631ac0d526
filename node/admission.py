"""Whether a message may be published: the rules, applied in the order that costs least."""

from collections.abc import Callable

from node.errors import ErrorCode, Refused
from node.registry import Registry
from node.rules import check_key_exchange, check_settings, check_signature, check_timestamp, check_unsigned_author
from node.streams import Operation, key_exchange_owner
from protocol.streamr import SignatureType, StreamMessage
from protocol.streamr.signing import Verdict, Verifier

__all__ = ["Admission"]


class Admission:
    def __init__(self, registry: Registry, clock_ms: Callable[[], int]) -> None:
        self._registry = registry
        self._clock_ms = clock_ms
        self._verifier = Verifier()

    def admit(self, message: StreamMessage, user: str) -> None:
        """Let the message pass, or not. A signed one is its signer's, whoever brings it; an unsigned one the user's.

        Raises: `Refused`.
        """
        check_timestamp(message, self._clock_ms())
        stream_id = message.message_id.stream_id
        if key_exchange_owner(stream_id):
            check_key_exchange(message)
        else:
            check_settings(message, self._registry.get(stream_id))
            self._check_author(message, user)
        check_signature(self.verdict(message))

    def admit_relayed(self, message: StreamMessage) -> None:
        """Let a message of another node pass, which has admitted it by its own permissions.

        The stream may be unknown here. Raises: `Refused`.
        """
        check_timestamp(message, self._clock_ms())
        stream = self._registry.find(message.message_id.stream_id)
        if key_exchange_owner(message.message_id.stream_id):
            check_key_exchange(message)
        elif stream is not None:
            check_settings(message, stream)
        check_signature(self.verdict(message))

    def verdict(self, message: StreamMessage) -> Verdict:
        return self._verifier.verify(message)

    def _check_author(self, message: StreamMessage, user: str) -> None:
        stream_id = message.message_id.stream_id
        if message.signature_type is SignatureType.NONE:
            check_unsigned_author(message, user)
            author = user
        else:
            author = message.message_id.publisher_id.lower()
        if not self._registry.may(author, stream_id, Operation.PUBLISH):
            raise Refused(ErrorCode.PERMISSION_DENIED, f"You are not allowed to write to stream {stream_id}")
