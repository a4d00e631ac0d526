"""Messages sent again to neighbours: the recent ones to a new neighbour, the stored ones on request.

`RecentMessages` has two uses: a message that arrives again is recognised without checking its signature again, and a
new neighbour is sent what it may have missed while there was no link. Both are optimisations: the hub guarantees that
nothing is delivered twice, and it knows more messages.
"""

from collections import deque
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from node.serialization import Broadcast
from node.storage import Storage
from node.storage.queries import ResendRequest, query_of
from node.streams import StreamPart
from protocol.streamr.control import ControlMessage, ResendResponseNoResend, ResendResponseResent, UnicastMessage
from protocol.streamr.control.messages import ResendResponseResending
from protocol.streamr.ids import MessageID
from protocol.streamr.stream_message import parse_stream_message

RECENT_S: Final = 60.0
MAX_RECENT_MESSAGES: Final = 20_000
MAX_RECENT_CHARACTERS: Final = 8 * 1024 * 1024


class _Recent(NamedTuple):
    passed_on_s: float
    broadcast: Broadcast


class RecentMessages:
    """The newest messages of all partitions together, bounded by age, number and size."""

    def __init__(
        self,
        *,
        max_age_s: float = RECENT_S,
        max_messages: int = MAX_RECENT_MESSAGES,
        max_characters: int = MAX_RECENT_CHARACTERS,
    ) -> None:
        self._max_age_s = max_age_s
        self._max_messages = max_messages
        self._max_characters = max_characters
        self._recent: deque[_Recent] = deque()
        self._ids: set[MessageID] = set()
        self._characters = 0

    def __contains__(self, message_id: MessageID) -> bool:
        return message_id in self._ids

    def __len__(self) -> int:
        return len(self._recent)

    def add(self, broadcast: Broadcast, now_s: float) -> None:
        if broadcast.message.message_id in self._ids:
            return
        self._recent.append(_Recent(now_s, broadcast))
        self._ids.add(broadcast.message.message_id)
        self._characters += len(broadcast.text)
        self.drop_old(now_s)

    def of(self, part: StreamPart) -> list[Broadcast]:
        """Those of one partition, the oldest first."""
        return [recent.broadcast for recent in self._recent if recent.broadcast.message.message_id[:2] == part]

    def drop_old(self, now_s: float) -> None:
        while self._recent and (
            self._recent[0].passed_on_s < now_s - self._max_age_s
            or len(self._recent) > self._max_messages
            or self._characters > self._max_characters
        ):
            broadcast = self._recent.popleft().broadcast
            self._ids.discard(broadcast.message.message_id)
            self._characters -= len(broadcast.text)


async def answer_resend(request: ResendRequest, storage: Storage) -> AsyncIterator[ControlMessage]:
    """The responses to a resend request, in order. Raises: `StorageError`."""
    part = StreamPart(request.stream_id, request.stream_partition)
    about = {"request_id": request.request_id, **part.fields()}
    has_begun = False
    async for page in storage.resend(part, query_of(request)):
        if not has_begun:
            yield ResendResponseResending(**about)
            has_begun = True
        for text in page:
            yield UnicastMessage(request_id=request.request_id, stream_message=parse_stream_message(text))
    yield ResendResponseResent(**about) if has_begun else ResendResponseNoResend(**about)
