"""Messages that the node creates for clients that send only content: legacy clients and plain HTTP.

Their chain is new with every start of the node. A message whose timestamp is older than that of the previous one is
published with that timestamp, and a sequence number that no other message has.
"""

import hashlib
import random
import secrets
from typing import Final

from node.errors import ErrorCode, Refused
from node.streams import Stream
from protocol.streamr.control.messages import LegacyPublishRequest
from protocol.streamr.ids import MessageID
from protocol.streamr.stream_message import SignatureType, StreamMessage
from protocol.streamr.stream_message.partitioner import partition_of

CHAIN_ID_BYTES: Final = 15
MAX_CHAINS: Final = 10_000
_Chain = tuple[str, int, str]  # stream, partition, user


class Author:
    def __init__(self) -> None:
        self.chain_id = secrets.token_urlsafe(CHAIN_ID_BYTES)
        self._latest_ms: dict[_Chain, int] = {}  # least recently written first
        self._sequence_number = 0

    def write(self, stream: Stream, content: str, *, user: str, timestamp: int, key: str | None) -> StreamMessage:
        """Make an unsigned message of the user. Raises: `Refused`, INVALID_REQUEST."""
        partition = choose_partition(stream, key)
        sequence_number = self._next_sequence_number((stream.id, partition, user), timestamp)
        try:
            message_id = MessageID(stream.id, partition, timestamp, sequence_number, user, self.chain_id)
            return StreamMessage(message_id, content)
        except ValueError as problem:
            raise Refused(ErrorCode.INVALID_REQUEST, f"The message is not valid: {problem}") from None

    def _next_sequence_number(self, chain: _Chain, timestamp: int) -> int:
        latest_ms = self._latest_ms.pop(chain, -1)
        if len(self._latest_ms) >= MAX_CHAINS:
            del self._latest_ms[next(iter(self._latest_ms))]
        self._latest_ms[chain] = max(latest_ms, timestamp)
        if timestamp > latest_ms:
            return 0
        self._sequence_number += 1
        return self._sequence_number


def choose_partition(stream: Stream, key: str | None) -> int:
    """The partition of the key; without a key, a random one."""
    if key:
        return partition_of(key, stream.partitions)
    return random.randrange(stream.partitions)  # noqa: S311 - spreads load, protects nothing


def signed_legacy_message(request: LegacyPublishRequest, partition: int, timestamp: int) -> StreamMessage:
    """A message whose signature covers only its timestamp and content.

    Its sequence number is derived from the content, so that different messages of one millisecond have different ids,
    and the same message from another client is a duplicate. Raises: `Refused`, INVALID_REQUEST.
    """
    digest = hashlib.sha256(request.content.encode(errors="surrogatepass")).digest()
    sequence_number = int.from_bytes(digest[:4]) >> 1
    try:
        return StreamMessage(
            MessageID(request.stream_id, partition, timestamp, sequence_number, request.publisher_id or ""),
            request.content,
            signature_type=request.signature_type or SignatureType.ETH_LEGACY,
            signature=request.signature,
        )
    except ValueError as problem:
        raise Refused(ErrorCode.INVALID_REQUEST, f"The message is not valid: {problem}") from None
