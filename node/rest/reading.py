"""Reading from storage: what a broker, a script or a spreadsheet asks for.

| request under `/streams/{id}/data/partitions/{p}` | query |
|---|---|
| `last` | `count` (1) |
| `from` | `fromTimestamp`, `fromSequenceNumber` (0), `publisherId`, `msgChainId` |
| `range` | these, and `toTimestamp`, `toSequenceNumber` (the last) |

`format=raw` gives one StreamMessage per line; `protocol` a JSON array of them, each as a string; the default, `object`,
a JSON array of objects. The answer is written page by page while it is read, so that its size is no matter.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import orjson

from node.client_session import Services
from node.http import Request, Response, Route, bad_request, json_response
from node.rest.caller import Caller
from node.rest.streams import stream_as_json
from node.storage import MAX_SEQUENCE_NUMBER, ResendFrom, ResendLast, ResendQuery, ResendRange
from node.streams import Operation, StreamPart
from protocol.streamr import EncryptionType, MessageRef, parse_stream_message

__all__ = ["ReadingApi"]

STORAGE_NODE_ADDRESS: Final = "0x0000000000000000000000000000000000000000"
"""The node stores every stream and has no key of its own to be known by."""


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
        return self._read(request, ResendFrom(start=_start_of(request), publisher=publisher, chain=chain))

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
                return Response(body=self._array(part, query, orjson.dumps))
            case "object":
                return Response(body=self._array(part, query, _as_object))
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
        """The node stores everything by itself, so there is nothing to do but to say so."""
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
    """Readers of objects want the content's JSON, not its text; content that is no JSON stays text."""
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return content
