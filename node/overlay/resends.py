"""What a storage node answers to a node that asks for stored messages, as one does whom a tracker named this node."""

from collections.abc import AsyncIterator
from typing import Any

from node.storage import ResendFrom, ResendLast, ResendQuery, ResendRange, Storage
from node.streams import StreamPart
from protocol.streamr import parse_stream_message
from protocol.streamr.control import (
    ControlMessage,
    ResendFromRequest,
    ResendLastRequest,
    ResendRangeRequest,
    ResendResponseNoResend,
    ResendResponseResending,
    ResendResponseResent,
    UnicastMessage,
)

__all__ = ["ResendRequest", "answer_resend"]

ResendRequest = ResendLastRequest | ResendFromRequest | ResendRangeRequest


async def answer_resend(request: ResendRequest, storage: Storage) -> AsyncIterator[ControlMessage]:
    """Every answer in turn. Raises: `StorageError`."""
    part = StreamPart(request.stream_id, request.stream_partition)
    about: dict[str, Any] = {
        "request_id": request.request_id,
        "stream_id": part.stream_id,
        "stream_partition": part.partition,
    }
    has_begun = False
    async for page in storage.resend(part, _query(request)):
        if not has_begun:
            yield ResendResponseResending(**about)
            has_begun = True
        for text in page:
            yield UnicastMessage(request_id=request.request_id, stream_message=parse_stream_message(text))
    yield ResendResponseResent(**about) if has_begun else ResendResponseNoResend(**about)


def _query(request: ResendRequest) -> ResendQuery:
    match request:
        case ResendLastRequest(number_last=count):
            return ResendLast(count=count)
        case ResendFromRequest(from_msg_ref=start, publisher_id=publisher, msg_chain_id=chain):
            return ResendFrom(start=start, publisher=publisher, chain=chain)
        case ResendRangeRequest(from_msg_ref=start, to_msg_ref=end, publisher_id=publisher, msg_chain_id=chain):
            return ResendRange(start=start, end=end, publisher=publisher, chain=chain)
