"""The websocket session of one client: requests and responses, in control versions 0, 1 and 2.

    /api/v1/ws?controlLayerVersion=2&messageLayerVersion=32

Any control version may be combined with any message version. If one of the two parameters is missing, both are ignored,
as by real brokers, and the client uses the legacy JSON API: control version 0, and message version 28, or 29 for a
message with a signature that such clients can check (they drop unsigned messages of streams that require signatures).

Responses use the versions that the client named when it connected, whatever the version of the request. A successful
publish has no response. The response to a resend is "resending", the messages and "resent", or "no resend" if there
are none.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from node.access.login import Sessions
from node.clients.authoring import Author, choose_partition, signed_legacy_message
from node.counters import Counters
from node.errors import ErrorCode, Refused, StorageError
from node.http import Request, Upgrade, WebsocketConnection, bad_request
from node.hub.hub import Hub
from node.limits import Limits
from node.permissions.registry import Registry
from node.serialization import LEGACY_API, BroadcastRun, Frames, Versions, legacy_unicast_frames, unicast_frames
from node.storage import Storage
from node.storage.arrival_queries import arrival_query_of
from node.storage.queries import ResendRequest, query_of
from node.streams import PUBLIC, Operation, StreamPart, key_exchange_owner
from protocol.errors import WireError
from protocol.streamr.control import (
    ControlMessage,
    ErrorResponse,
    LegacyResendRequest,
    PublishRequest,
    ResendFromRequest,
    ResendLastRequest,
    ResendRangeRequest,
    ResendResponseNoResend,
    ResendResponseResent,
    SubscribeRequest,
    SubscribeResponse,
    UnsubscribeRequest,
    parse_control_message,
)
from protocol.streamr.control.messages import LegacyPublishRequest, ResendResponseResending, UnsubscribeResponse
from protocol.streamr.stream_message import SignatureType, StreamMessage
from runtime.client_network import client_network
from runtime.token_bucket import TokenBucket

AnyResendRequest = ResendRequest | LegacyResendRequest
StreamRequest = AnyResendRequest | SubscribeRequest | UnsubscribeRequest
Acknowledgement = type[
    SubscribeResponse | UnsubscribeResponse | ResendResponseResending | ResendResponseResent | ResendResponseNoResend
]
log = logging.getLogger(__name__)
CONTROL_VERSIONS: Final = ("0", "1", "2")
STREAM_VERSIONS: Final = ("28", "29", "30", "31", "32")


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The parts of the node that clients are served by."""

    hub: Hub
    registry: Registry
    sessions: Sessions
    storage: Storage
    author: Author
    limits: Limits
    counters: Counters
    clock_ms: Callable[[], int]
    clock_s: Callable[[], float]


class ClientSession:
    """One connected client. It is a `Subscriber`."""

    def __init__(self, connection: WebsocketConnection, versions: Versions, services: Services) -> None:
        self._connection = connection
        self._origin = client_network(connection.peer)
        self._versions = versions
        self._services = services
        self._requests = TokenBucket(services.limits.max_requests_per_s, burst=services.limits.max_requests_per_s)
        self._parts: set[StreamPart] = set()
        self._resends: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Serve requests until the client disconnects."""
        try:
            async with asyncio.TaskGroup() as group:
                async for data in self._connection.messages():
                    await self._slow_down()
                    self.answer(data, group)
                for resend in self._resends:
                    resend.cancel()
        finally:
            for part in self._parts:
                self._services.hub.unsubscribe(part, self)

    def deliver(self, run: BroadcastRun) -> None:
        frames = run.frames(self._versions)
        self._services.counters.delivered += frames.messages
        self._send_frames(frames)

    # --- requests ---

    async def _slow_down(self) -> None:
        """Wait if the client sends too fast. Nothing is read from it meanwhile, so TCP slows it down."""
        wait_s = self._requests.take(1, self._services.clock_s())
        if wait_s > 0:
            self._services.counters.throttled += 1
            await asyncio.sleep(wait_s)
        await self._services.hub.wait_for_space()

    def answer(self, data: bytes, group: asyncio.TaskGroup) -> None:
        """Serve one request. Every error becomes a response; nothing is raised."""
        try:
            request = parse_control_message(data)
        except WireError as problem:
            self._services.counters.unparsable += 1
            self._send_error("", ErrorCode.INVALID_REQUEST, f"The request cannot be read: {problem}")
            return
        try:
            self._dispatch(request, group)
        except Refused as problem:
            self._refuse(request, problem)
        except Exception:
            log.exception("request failed; type=%s", type(request).__name__)
            self._send_error(
                request.request_id, ErrorCode.ERROR_WHILE_HANDLING_REQUEST, "Error while handling the request"
            )

    def _dispatch(self, request: ControlMessage, group: asyncio.TaskGroup) -> None:
        match request:
            case PublishRequest():
                self._publish(request)
            case LegacyPublishRequest():
                self._publish_legacy(request)
            case SubscribeRequest():
                self._subscribe(request)
            case UnsubscribeRequest():
                self._unsubscribe(request)
            case ResendLastRequest() | ResendFromRequest() | ResendRangeRequest() | LegacyResendRequest():
                self._start_resend(request, group)
            case _:
                raise Refused(
                    ErrorCode.INVALID_REQUEST, f"{type(request).__name__} is not a request that a node answers"
                )

    def _refuse(self, request: ControlMessage, problem: Refused) -> None:
        self._services.counters.refused += 1
        self._send_error(request.request_id, problem.code, str(problem))

    def _send(self, message: ControlMessage) -> None:
        self._connection.send(message.serialize(self._versions.control, stream_version=self._versions.stream))

    def _send_frames(self, frames: Frames) -> None:
        self._services.counters.unsupported += frames.unsupported
        self._connection.send_frames(frames.data)

    def _acknowledge(self, request: StreamRequest, kind: Acknowledgement) -> None:
        part = StreamPart(request.stream_id, request.stream_partition)
        self._send(kind(request_id=request.request_id, **part.fields()))

    def _send_error(self, request_id: str, code: ErrorCode, problem: str) -> None:
        self._send(ErrorResponse(request_id=request_id, error_message=problem, error_code=code.value))

    def _user_of(self, token: str | None, api_key: str | None = None) -> str:
        if token:
            return self._services.sessions.user_of(token)
        return self._services.sessions.user_of_api_key(api_key) if api_key else PUBLIC

    # --- publishing ---

    def _publish(self, request: PublishRequest) -> None:
        message = request.stream_message
        is_signed = message.signature_type is not SignatureType.NONE
        user = PUBLIC if is_signed else self._user_of(request.session_token)
        self._publish_message(request, message, user)

    def _publish_legacy(self, request: LegacyPublishRequest) -> None:
        services = self._services
        stream = services.registry.get(request.stream_id)
        user = self._user_of(request.session_token, request.auth_key)
        now_ms = services.clock_ms() if request.timestamp is None else request.timestamp
        if request.signature is None:
            message = services.author.write(
                stream, request.content, user=user, timestamp=now_ms, key=request.partition_key
            )
        else:
            message = signed_legacy_message(request, choose_partition(stream, request.partition_key), now_ms)
        self._publish_message(request, message, user, may_be_late=True)

    def _publish_message(
        self, request: ControlMessage, message: StreamMessage, user: str, *, may_be_late: bool = False
    ) -> None:
        done = partial(self._refuse_unstored, request)
        self._services.hub.publish(message, user, origin=self._origin, done=done, may_be_late=may_be_late)

    def _refuse_unstored(self, request: ControlMessage, problem: StorageError | Refused | None) -> None:
        if isinstance(problem, Refused):
            self._refuse(request, problem)
        elif problem is not None:
            self._refuse(request, Refused(ErrorCode.REQUEST_FAILED, "Publish request failed: not stored"))

    # --- subscribing ---

    def _subscribe(self, request: SubscribeRequest) -> None:
        part = StreamPart(request.stream_id, request.stream_partition)
        self._require_subscribe_permission(part, self._user_of(request.session_token, request.auth_key), "subscribe to")
        if len(self._parts) >= self._services.limits.max_subscriptions and part not in self._parts:
            raise Refused(ErrorCode.REQUEST_FAILED, f"No more than {len(self._parts)} subscriptions are allowed")
        self._parts.add(part)
        self._services.hub.subscribe(part, self)
        self._acknowledge(request, SubscribeResponse)

    def _unsubscribe(self, request: UnsubscribeRequest) -> None:
        part = StreamPart(request.stream_id, request.stream_partition)
        if part not in self._parts:
            problem = f"Not subscribed to stream {part.stream_id} partition {part.partition}!"
            raise Refused(ErrorCode.INVALID_REQUEST, problem)
        self._parts.discard(part)
        self._services.hub.unsubscribe(part, self)
        self._acknowledge(request, UnsubscribeResponse)

    def _require_subscribe_permission(self, part: StreamPart, user: str, what: str) -> None:
        partitions = 1
        if not key_exchange_owner(part.stream_id):
            partitions = self._services.registry.get(part.stream_id).partitions
            if not self._services.registry.may(user, part.stream_id, Operation.SUBSCRIBE):
                raise Refused(ErrorCode.PERMISSION_DENIED, f"You are not allowed to {what} stream {part.stream_id}")
        if part.partition >= partitions:
            problem = f"Stream {part.stream_id} has no partition {part.partition}"
            raise Refused(ErrorCode.INVALID_REQUEST, problem)

    # --- resending ---

    def _start_resend(self, request: AnyResendRequest, group: asyncio.TaskGroup) -> None:
        part = StreamPart(request.stream_id, request.stream_partition)
        api_key = request.auth_key if isinstance(request, LegacyResendRequest) else None
        self._require_subscribe_permission(part, self._user_of(request.session_token, api_key), "request resend on")
        if len(self._resends) >= self._services.limits.max_resends:
            problem = f"No more than {self._services.limits.max_resends} resends at a time are allowed"
            raise Refused(ErrorCode.RESEND_FAILED, problem)
        self._services.counters.resends += 1
        task = group.create_task(self._resend(request, part), name=f"resend {request.request_id[:40]}")
        self._resends.add(task)
        task.add_done_callback(self._resends.discard)

    async def _resend(self, request: AnyResendRequest, part: StreamPart) -> None:
        try:
            has_begun = False
            async for frames in self._stored_frames(request, part):
                if not has_begun:
                    self._acknowledge(request, ResendResponseResending)
                    has_begun = True
                self._services.counters.resent += frames.messages
                self._send_frames(frames)
                await self._connection.drain()
            self._acknowledge(request, ResendResponseResent if has_begun else ResendResponseNoResend)
        except StorageError as problem:
            log.error("resend failed; problem=%s", problem)  # noqa: TRY400 - the text says it all
            self._refuse(request, Refused(ErrorCode.RESEND_FAILED, "Failed to request resend: storage failed"))
        except ConnectionError:
            pass  # the client left in the middle; the connection's own task ends the session

    async def _stored_frames(self, request: AnyResendRequest, part: StreamPart) -> AsyncIterator[Frames]:
        storage, request_id = self._services.storage, request.request_id
        if isinstance(request, LegacyResendRequest):
            async for texts in storage.resend_by_arrival(part, arrival_query_of(request)):
                yield legacy_unicast_frames(texts, request_id, self._versions)
        else:
            async for page in storage.resend(part, query_of(request)):
                yield unicast_frames(page, request_id, self._versions)


class ClientEndpoint:
    def __init__(self, services: Services) -> None:
        self._services = services

    def upgrade(self, request: Request) -> Upgrade:
        """Raises: `Refused`, INVALID_REQUEST."""
        versions = negotiate(request.query)
        return Upgrade(serve=lambda connection: ClientSession(connection, versions, self._services).serve())


def negotiate(query: Mapping[str, str]) -> Versions:
    """Raises: `Refused`, INVALID_REQUEST."""
    control, stream = query.get("controlLayerVersion"), query.get("messageLayerVersion")
    if not control or not stream:
        return LEGACY_API
    if control not in CONTROL_VERSIONS or stream not in STREAM_VERSIONS:
        raise bad_request(
            f"controlLayerVersion must be one of {', '.join(CONTROL_VERSIONS)}"
            f" and messageLayerVersion one of {', '.join(STREAM_VERSIONS)}"
        )
    return Versions(int(control), int(stream))
