"""What a request for a resend asks the storage for, in whatever version it came."""

from node.storage import MAX_SEQUENCE_NUMBER, ResendFrom, ResendLast, ResendQuery, ResendRange
from protocol.streamr import MessageRef
from protocol.streamr.control import LegacyResendRequest, ResendFromRequest, ResendLastRequest, ResendRangeRequest

__all__ = ["ResendRequest", "query_of"]

ResendRequest = ResendLastRequest | ResendFromRequest | ResendRangeRequest


def query_of(request: ResendRequest | LegacyResendRequest) -> ResendQuery:
    match request:
        case ResendLastRequest(number_last=count):
            return ResendLast(count=count)
        case ResendFromRequest(from_msg_ref=start, publisher_id=publisher, msg_chain_id=chain):
            return ResendFrom(start=start, publisher=publisher, chain=chain)
        case ResendRangeRequest(from_msg_ref=start, to_msg_ref=end, publisher_id=publisher, msg_chain_id=chain):
            return ResendRange(start=start, end=end, publisher=publisher, chain=chain)
        case LegacyResendRequest():
            return _legacy_query(request)


def _legacy_query(request: LegacyResendRequest) -> ResendQuery:
    """To old clients a message's offset is its timestamp."""
    if request.resend_last is not None:
        return ResendLast(count=request.resend_last)
    choices = (request.resend_from, request.resend_from_time)
    start = MessageRef(max(0, next((choice for choice in choices if choice is not None), 0)), 0)
    if request.resend_to is None:
        return ResendFrom(start=start)
    return ResendRange(start=start, end=MessageRef(max(0, request.resend_to), MAX_SEQUENCE_NUMBER))
