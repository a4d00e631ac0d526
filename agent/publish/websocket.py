"""The publisher that speaks control version 2 to a node over a websocket.

It logs in by signing a challenge, subscribes to every stream partition it publishes to, and counts the echo of a
message as its acknowledgement; `echoes` handles messages without one. An `ErrorResponse` about a message quarantines
it; one about the session or a fault of the node ends the connection, and everything is tried again.

The same connection serves a `Listener`, which receives a stream and responds: requests for the keys of encrypted
streams arrive this way.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from agent.errors import LinkDown
from agent.journal import Record
from agent.publish.contract import Outcome, OutcomeQueue, RejectedRun, run_of
from agent.publish.echoes import EchoSettings, EchoTracker, Question, message_key
from agent.publish.node_connection import NodeConnection, new_session
from agent.publish.node_rest import NodeSession, NodeSettings, ReadersOf, no_readers
from protocol.errors import WireError
from protocol.ethereum.signer import Signer
from protocol.streamr.control import (
    BroadcastMessage,
    ErrorResponse,
    PublishRequest,
    ResendRangeRequest,
    ResendResponseNoResend,
    ResendResponseResent,
    SubscribeRequest,
    SubscribeResponse,
    UnicastMessage,
    parse_control_message,
)
from protocol.streamr.control.envelope import peek_broadcast_id, publish_frame
from protocol.streamr.ids import MessageID
from protocol.streamr.stream_message import StreamMessage
from protocol.streamr.stream_message.peek import peek_message_id

MAX_IN_FLIGHT = 500
MAX_SUBSCRIPTIONS = 900  # of one connection; nodes allow about a thousand
TICK_S = 0.25

_TEMPORARY = frozenset({"AUTHENTICATION_FAILED", "ERROR_WHILE_HANDLING_REQUEST"})
_NOT_STORED = "not stored"  # REQUEST_FAILED is used for bad messages and for a bad disk; only the text differs

Part = tuple[str, int]

log = logging.getLogger(__name__)


class Listener(Protocol):
    """Receives a stream over the publisher's connection, and may respond."""

    @property
    def stream_id(self) -> str: ...

    def answer(self, message: StreamMessage, now_ms: int) -> Sequence[StreamMessage]:
        """The messages to publish in response. Must not raise, whatever the message."""

    def take_announcements(self) -> Sequence[StreamMessage]:
        """Messages to publish without a request. Called often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebsocketSettings:
    node: NodeSettings
    echoes: EchoSettings = field(default_factory=EchoSettings)
    create_streams: bool = True  # create missing streams under the device's address
    readers_of: ReadersOf = no_readers


class WebsocketPublisher:
    max_in_flight = MAX_IN_FLIGHT

    def __init__(
        self,
        name: str,
        settings: WebsocketSettings,
        signer: Signer,
        listener: Listener | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._settings = settings
        self._signer = signer
        self._listener = listener
        self._now_s = now_s
        self._session: NodeSession | None = None
        self._link: _Link | None = None

    async def connect(self) -> None:
        await self.close()
        connection = await NodeConnection.open(self._settings.node, self._require_session())
        self._link = _Link(connection, self._settings, self._listener, self._now_s)
        await self._link.start()

    async def send(self, records: Sequence[Record]) -> None:
        await self._require_link().send(records)

    async def outcomes(self) -> Sequence[Outcome]:
        return await self._require_link().box.take()

    async def close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    def _require_session(self) -> NodeSession:
        """The same over all connections, so that a link that comes and goes does not log in each time."""
        if self._session is None:
            try:
                self._session = new_session(self._settings.node, self._signer)
            except OSError as problem:
                raise LinkDown(f"{self._settings.node.url}: {problem}") from problem
        return self._session

    def _require_link(self) -> "_Link":
        if self._link is None:
            raise LinkDown(f"{self._settings.node.url}: not connected")
        return self._link


class _Link:
    """One connection: its subscriptions, what is not proved on it, and the two tasks that listen and watch."""

    def __init__(
        self,
        connection: NodeConnection,
        settings: WebsocketSettings,
        listener: Listener | None,
        now_s: Callable[[], float],
    ) -> None:
        self.box = OutcomeQueue()
        self._connection = connection
        self._settings = settings
        self._listener = listener
        self._now_s = now_s
        self._echoes = EchoTracker(settings.echoes)
        self._parts: dict[Part, str | None] = {}  # why we cannot subscribe to it, or None if we could
        self._subscribing: dict[str, asyncio.Future[ErrorResponse | None]] = {}  # by request id
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Raises: LinkDown."""
        self._tasks = [
            asyncio.create_task(self._or_fail(self._listen), name="websocket listens"),
            asyncio.create_task(self._or_fail(self._watch), name="websocket watches"),
        ]
        if self._listener is not None:
            await self._subscribe((self._listener.stream_id, 0))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._connection.close()

    # --- sending ---

    async def send(self, records: Sequence[Record]) -> None:
        self.box.check()
        for record in records:
            key = message_key(peek_message_id(record.payload))
            if key is None:
                self._refuse(record, "not a stream message")
                continue
            problem = await self._subscribe((key.stream_id, key.stream_partition))
            if problem is None:
                self._echoes.add(record, key, self._now_s())
                await self._publish(record)
            else:
                self._refuse(record, problem)

    async def post(self, messages: Sequence[StreamMessage]) -> None:
        """Publish messages that need no proof. Raises: LinkDown."""
        token = await self._connection.token()
        for message in messages:
            request = PublishRequest(request_id="answer", stream_message=message, session_token=token)
            await self._connection.send(request)

    async def _publish(self, record: Record) -> None:
        request_id, token = f"{record.lane}-{record.position}", await self._connection.token()
        await self._connection.send_text(publish_frame(request_id, record.payload, token))

    def _refuse(self, record: Record, reason: str) -> None:
        self.box.put(RejectedRun(*run_of([record]), reason))

    # --- subscribing ---

    async def _subscribe(self, part: Part) -> str | None:
        """None once we are subscribed; otherwise why we cannot be. Raises: LinkDown."""
        if part not in self._parts:
            if len(self._parts) >= MAX_SUBSCRIPTIONS:
                return f"more than {MAX_SUBSCRIPTIONS} stream partitions on one connection"
            self._parts[part] = await self._ask_to_subscribe(part)
        return self._parts[part]

    async def _ask_to_subscribe(self, part: Part) -> str | None:
        refusal, obstacle = await self._request_subscription(part), ""
        if refusal is not None and refusal.error_code == "NOT_FOUND" and self._settings.create_streams:
            obstacle = await self._create_stream(part)
            refusal = await self._request_subscription(part)
        if refusal is None:
            await self._share_stream(part[0])
            return None
        self._check_passing(refusal)
        return f"{refusal.error_code}: {refusal.error_message} {obstacle}".rstrip()

    async def _request_subscription(self, part: Part) -> ErrorResponse | None:
        stream_id, partition = part
        request_id = f"subscribe-{len(self._parts)}-{len(self._subscribing)}"
        request = SubscribeRequest(
            request_id=request_id,
            stream_id=stream_id,
            stream_partition=partition,
            session_token=await self._connection.token(),
        )
        answered: asyncio.Future[ErrorResponse | None] = asyncio.get_running_loop().create_future()
        self._subscribing[request_id] = answered
        try:
            await self._connection.send(request)
            async with asyncio.timeout(self._settings.node.deadline_s):
                return await answered
        except TimeoutError:
            raise LinkDown(f"{self._connection.url}: no answer to a subscription") from None
        finally:
            del self._subscribing[request_id]

    async def _create_stream(self, part: Part) -> str:
        """Why it was not made; nothing, if it was."""
        stream_id, partition = part
        if self._connection.session is None:
            return "not logged in, so it cannot be created"
        return await asyncio.to_thread(self._connection.session.create_stream, stream_id, partition + 1)

    async def _share_stream(self, stream_id: str) -> None:
        readers = self._settings.readers_of(stream_id)
        if readers and self._connection.session is not None:
            await asyncio.to_thread(self._connection.session.share_stream, stream_id, readers)

    # --- receiving ---

    async def _or_fail(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        try:
            await work()
        except LinkDown as problem:
            self.box.fail(problem)
            for answered in self._subscribing.values():
                if not answered.done():
                    answered.set_exception(problem)

    async def _listen(self) -> None:
        async for frame in self._connection.frames():
            try:
                await self._receive(frame)
            except WireError as problem:
                log.warning("unreadable message from the node; node=%s problem=%s", self._connection.url, problem)

    async def _receive(self, frame: bytes) -> None:
        if self._receive_echo(frame):
            return
        message = parse_control_message(frame)
        match message:
            case BroadcastMessage():
                await self._let_listener_answer(message.stream_message)
            case UnicastMessage():
                self._prove(message_key(message.stream_message.message_id))
            case ResendResponseResent() | ResendResponseNoResend():
                await self._handle_query_response(message.request_id)
            case SubscribeResponse():
                self._end_subscribing(message.request_id, None)
            case ErrorResponse():
                await self._receive_error(message)

    def _receive_echo(self, frame: bytes) -> bool:
        """The hot path: most of what comes are our own messages, of which the id is all that matters."""
        return self._prove(message_key(peek_broadcast_id(frame)))

    def _prove(self, key: MessageID | None) -> bool:
        outcome = None if key is None else self._echoes.prove(key)
        if outcome is not None:
            self.box.put(outcome)
        return outcome is not None

    async def _receive_error(self, error: ErrorResponse) -> None:
        if self._end_subscribing(error.request_id, error):
            return
        if error.request_id.startswith("resend-"):
            await self._handle_query_response(error.request_id)
            return
        self._check_passing(error)
        lane, _, position = error.request_id.partition("-")
        reason = f"{error.error_code}: {error.error_message}"
        outcome = self._echoes.refuse(int(lane), int(position), reason) if _are_numbers(lane, position) else None
        if outcome is not None:
            self.box.put(outcome)
        else:
            log.warning("the node reports an error; node=%s problem=%s", self._connection.url, reason)

    def _check_passing(self, error: ErrorResponse) -> None:
        """Raises: LinkDown, where the error is not about the message and the next attempt may go well."""
        is_bad_disk = error.error_code == "REQUEST_FAILED" and _NOT_STORED in error.error_message
        if error.error_code in _TEMPORARY or is_bad_disk:
            if error.error_code == "AUTHENTICATION_FAILED" and self._connection.session is not None:
                self._connection.session.drop_token()
            raise LinkDown(f"{self._connection.url}: {error.error_code}: {error.error_message}")

    def _end_subscribing(self, request_id: str, refusal: ErrorResponse | None) -> bool:
        answered = self._subscribing.get(request_id)
        if answered is not None and not answered.done():
            answered.set_result(refusal)
        return answered is not None

    async def _let_listener_answer(self, message: StreamMessage) -> None:
        if self._listener is not None and message.message_id.stream_id == self._listener.stream_id:
            await self.post(self._listener.answer(message, time.time_ns() // 1_000_000))

    # --- what is overdue ---

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            if self._listener is not None and (announcements := self._listener.take_announcements()):
                await self.post(announcements)
            if self._echoes.is_unanswered(self._now_s()):
                raise LinkDown(f"{self._connection.url}: no echo and no answer in time")
            for question in self._echoes.ask(self._now_s()):
                await self._query_storage(question)

    async def _query_storage(self, question: Question) -> None:
        chain = question.chain
        request = ResendRangeRequest(
            request_id=f"resend-{question.number}",
            stream_id=chain.stream_id,
            stream_partition=chain.partition,
            from_msg_ref=question.first,
            to_msg_ref=question.last,
            publisher_id=chain.publisher,
            msg_chain_id=chain.chain,
            session_token=await self._connection.token(),
        )
        await self._connection.send(request)

    async def _handle_query_response(self, request_id: str) -> None:
        number = request_id.removeprefix("resend-")
        if not _are_numbers(number):
            return
        for result in self._echoes.answer(int(number), self._now_s()):
            if isinstance(result, RejectedRun):
                self.box.put(result)
            else:
                await self._publish(result)


def _are_numbers(*texts: str) -> bool:
    return all(text.isascii() and text.isdecimal() for text in texts)
