"""REST: publishing messages to a stream, and reading stored messages.

`POST /streams/{id}/data` publishes its body as the content; 200 means that the message is stored. Without a signature
in the query, the node makes an unsigned message for the caller (with `ts` and `pkey`, if given). With a signature, the
query holds the other fields of a signed message, and the node publishes exactly that message.

| request under `/streams/{id}/data/partitions/{p}` | query |
|---|---|
| `last` | `count` (1) |
| `from` | `fromTimestamp`, `fromSequenceNumber` (0), `publisherId`, `msgChainId` |
| `range` | these, and `toTimestamp`, `toSequenceNumber` (the last) |

`format=raw` gives one StreamMessage per line; `protocol` a JSON array of them, each as a string; the default, `object`,
a JSON array of objects. The response is sent page by page while it is read, so its size is not limited by memory.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import orjson

from node.clients.authoring import choose_partition
from node.clients.session import Services
from node.errors import Refused, StorageError
from node.http import JSON_TYPE, Request, Response, Route, bad_request, json_response
from node.rest.caller import Caller
from node.rest.streams import stream_as_json
from node.storage import MAX_SEQUENCE_NUMBER, ResendLast, ResendQuery, ResendRange
from node.streams import Operation, Stream, StreamPart
from protocol.streamr.ids import MessageID, MessageRef
from protocol.streamr.stream_message import (
    EncryptedGroupKey,
    EncryptionType,
    SignatureType,
    StreamMessage,
    parse_stream_message,
)
from runtime.client_network import client_network

STORAGE_NODE_ADDRESS: Final = "0x0000000000000000000000000000000000000000"
"""The node stores every stream, and has no key and no address."""
_ENCRYPTION_TYPES: Final = {
    str(int(kind)): kind for kind in EncryptionType if kind is not EncryptionType.NEW_KEY_AND_AES
}


class ReadingApi:
    def __init__(self, services: Services, caller: Caller) -> None:
        self._services = services
        self._caller = caller

    def routes(self) -> list[Route]:
        data = "/streams/{stream}/data/partitions/{partition}"
        return [
            Route("GET", f"{data}/last", self.last),
            Route("GET", f"{data}/from", self.from_ref),
            Route("GET", f"{data}/range", self.range),
            Route("GET", "/streams/{stream}/storage/partitions/{partition}", self.is_stored),
            Route("GET", "/streams/{stream}/storageNodes", self.storage_nodes),
            Route("POST", "/streams/{stream}/storageNodes", self.add_storage_node),
            Route("GET", "/storageNodes/{address}/streams", self.stored_streams),
        ]

    async def last(self, request: Request) -> Response:
        return self._read(request, ResendLast(count=request.number("count", 1)))

    async def from_ref(self, request: Request) -> Response:
        publisher, chain = _chain_of(request)
        return self._read(request, ResendRange(start=_start_of(request), publisher=publisher, chain=chain))

    async def range(self, request: Request) -> Response:
        start = _start_of(request)
        end = MessageRef(request.number("toTimestamp"), request.number("toSequenceNumber", MAX_SEQUENCE_NUMBER))
        if start > end:
            raise bad_request("The range ends before it starts")
        publisher, chain = _chain_of(request)
        return self._read(request, ResendRange(start=start, end=end, publisher=publisher, chain=chain))

    def _read(self, request: Request, query: ResendQuery) -> Response:
        part = self._caller.part_for(request, Operation.SUBSCRIBE)
        match request.query.get("format", "object"):
            case "raw":
                return Response(body=self._lines(part, query), content_type="text/plain; charset=utf-8")
            case "protocol":
                return Response(body=self._array(part, query, orjson.dumps), content_type=JSON_TYPE)
            case "object":
                return Response(body=self._array(part, query, _as_object), content_type=JSON_TYPE)
        raise bad_request("format must be one of raw, protocol, object")

    async def _lines(self, part: StreamPart, query: ResendQuery) -> AsyncIterator[bytes]:
        async for page in self._services.storage.resend(part, query):
            yield ("\n".join(page) + "\n").encode()

    async def _array(
        self, part: StreamPart, query: ResendQuery, encode: Callable[[str], bytes]
    ) -> AsyncIterator[bytes]:
        separator = b"["
        async for page in self._services.storage.resend(part, query):
            yield separator + b",".join(map(encode, page))
            separator = b","
        yield b"[]" if separator == b"[" else b"]"

    async def is_stored(self, request: Request) -> Response:
        self._caller.part_for(request, Operation.GET)
        return json_response({})

    async def storage_nodes(self, request: Request) -> Response:
        self._caller.stream_for(request, Operation.GET)
        return json_response([{"storageNodeAddress": STORAGE_NODE_ADDRESS}])

    async def add_storage_node(self, request: Request) -> Response:
        """The node stores every stream anyway, so this only confirms it."""
        self._caller.stream_for(request, Operation.EDIT)
        return json_response({"storageNodeAddress": STORAGE_NODE_ADDRESS})

    async def stored_streams(self, request: Request) -> Response:
        user = self._caller.user_of(request)
        registry = self._services.registry
        return json_response(
            [stream_as_json(stream) for stream in registry if registry.may(user, stream.id, Operation.GET)]
        )


def _start_of(request: Request) -> MessageRef:
    return MessageRef(request.number("fromTimestamp"), request.number("fromSequenceNumber", 0))


def _chain_of(request: Request) -> tuple[str | None, str | None]:
    return request.query.get("publisherId"), request.query.get("msgChainId")


def _as_object(text: str) -> bytes:
    message = parse_stream_message(text)
    stream_id, partition, timestamp, sequence_number, publisher_id, chain_id = message.message_id
    fields: dict[str, Any] = {
        "streamId": stream_id,
        "streamPartition": partition,
        "timestamp": timestamp,
        "sequenceNumber": sequence_number,
        "publisherId": publisher_id,
        "msgChainId": chain_id,
        "messageType": message.message_type,
        "contentType": message.content_type,
        "encryptionType": message.encryption_type,
        "groupKeyId": message.group_key_id,
        "content": message.content,
        "signatureType": message.signature_type,
        "signature": message.signature,
    }
    if message.encryption_type is EncryptionType.NONE:
        fields["content"] = _parsed(message.content)
    return orjson.dumps(fields)


def _parsed(content: str) -> Any:
    """The parsed content; content that is not JSON stays text."""
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return content


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
        await self._services.hub.wait_for_space()
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        is_ours = "signature" not in request.query
        self._services.hub.publish(
            message,
            user,
            origin=client_network(request.peer),
            done=lambda problem: _settle(stored, problem),
            may_be_late=is_ours,
        )
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


def _settle(stored: "asyncio.Future[None]", problem: StorageError | Refused | None) -> None:
    if stored.done():
        return  # the client has disconnected
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
