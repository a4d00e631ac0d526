"""Publishing by HTTP: `POST /streams/{id}/data`, the body being the content. 200 means that it is stored.

Without a signature in the query, the node makes an unsigned message of it for the caller (`ts` and `pkey` are heeded).
With one, the query holds all else of an already signed message, and the node passes on exactly that.
"""

import asyncio
from typing import Final

import orjson

from node.authoring import choose_partition
from node.client_session import Services
from node.errors import StorageError
from node.http import Request, Response, Route, bad_request
from node.rest.caller import Caller
from node.streams import Stream
from protocol.streamr import (
    EncryptedGroupKey,
    EncryptionType,
    MessageID,
    MessageRef,
    SignatureType,
    StreamMessage,
)

__all__ = ["PublishingApi"]

_ENCRYPTION_TYPES: Final = {
    str(int(kind)): kind for kind in EncryptionType if kind is not EncryptionType.NEW_KEY_AND_AES
}


class PublishingApi:
    def __init__(self, services: Services, caller: Caller) -> None:
        self._services = services
        self._caller = caller

    def routes(self) -> list[Route]:
        return [Route("POST", "/streams/{stream}/data", self.publish)]

    async def publish(self, request: Request) -> Response:
        user = self._caller.user_of(request)
        stream = self._services.registry.get(request.arguments["stream"])
        message = self._message(request, stream, user)
        await self._services.hub.room()
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        is_ours = "signature" not in request.query
        self._services.hub.publish(message, user, done=lambda problem: _settle(stored, problem), may_be_late=is_ours)
        await stored
        return Response()

    def _message(self, request: Request, stream: Stream, user: str) -> StreamMessage:
        content = _read_content(request)
        if "signature" in request.query:
            return _signed_message(request, stream, content)
        timestamp = request.number("ts", self._services.clock_ms())
        return self._services.author.write(
            stream, content, user=user, timestamp=timestamp, key=request.query.get("pkey")
        )


def _settle(stored: "asyncio.Future[None]", problem: StorageError | None) -> None:
    if stored.done():
        return  # the client did not wait for it
    if problem is None:
        stored.set_result(None)
    else:
        stored.set_exception(problem)


def _read_content(request: Request) -> str:
    """Raises: `Refused`, INVALID_REQUEST."""
    try:
        content = request.body.decode()
        if request.query.get("encryptionType", "0") == "0":
            orjson.loads(content)
    except ValueError as problem:
        raise bad_request(f"The body is not JSON: {problem}") from None
    return content


def _signed_message(request: Request, stream: Stream, content: str) -> StreamMessage:
    """Raises: `Refused`, INVALID_REQUEST."""
    query = request.query
    partition = request.number("partition") if "partition" in query else choose_partition(stream, query.get("pkey"))
    new_key = query.get("newGroupKey")
    try:
        return StreamMessage(
            MessageID(
                stream.id,
                partition,
                request.number("ts"),
                request.number("seq", 0),
                query.get("address", ""),
                query.get("msgChainId", ""),
            ),
            content,
            MessageRef(request.number("prev_ts"), request.number("prev_seq", 0)) if "prev_ts" in query else None,
            encryption_type=_ENCRYPTION_TYPES[query.get("encryptionType", "0")],
            group_key_id=query.get("groupKeyId"),
            new_group_key=None if new_key is None else EncryptedGroupKey(new_key),
            signature_type=SignatureType(request.number("signatureType", SignatureType.ETH)),
            signature=query["signature"],
        )
    except (KeyError, ValueError) as problem:
        raise bad_request(f"The query does not describe a message: {problem}") from None
