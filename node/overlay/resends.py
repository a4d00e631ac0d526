"""What a storage node answers to a node that asks for stored messages, as one does whom a tracker named this node."""

from collections.abc import AsyncIterator
from typing import Any

from node.resend_queries import ResendRequest, query_of
from node.storage import Storage
from node.streams import StreamPart
from protocol.streamr import parse_stream_message
from protocol.streamr.control import (
    ControlMessage,
    ResendResponseNoResend,
    ResendResponseResending,
    ResendResponseResent,
    UnicastMessage,
)

__all__ = ["answer_resend"]


async def answer_resend(request: ResendRequest, storage: Storage) -> AsyncIterator[ControlMessage]:
    """Every answer in turn. Raises: `StorageError`."""
    part = StreamPart(request.stream_id, request.stream_partition)
    about: dict[str, Any] = {
        "request_id": request.request_id,
        "stream_id": part.stream_id,
        "stream_partition": part.partition,
    }
    has_begun = False
    async for page in storage.resend(part, query_of(request)):
        if not has_begun:
            yield ResendResponseResending(**about)
            has_begun = True
        for text in page:
            yield UnicastMessage(request_id=request.request_id, stream_message=parse_stream_message(text))
    yield ResendResponseResent(**about) if has_begun else ResendResponseNoResend(**about)
