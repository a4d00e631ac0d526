"""The publisher that posts signed messages to a node's HTTP endpoint: `POST /streams/{id}/data`, acknowledged by 200.

Several connections are used in parallel. All messages of a chain use the same one, and each waits for the response to
the previous one, so that their order holds. A response of 401 opens a new session and retries once; 5xx, 408 and 429
end the connection, and everything is tried again later; any other refusal quarantines the message.
"""

import asyncio
import contextlib
import ssl
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import quote, urlencode

from agent.errors import LinkDown, Rejected
from agent.journal import Record
from agent.publish.contract import Acknowledged, Outcome, OutcomeQueue, RejectedRun, run_of
from agent.publish.node_rest import NodeRest, NodeSession, NodeSettings, ReadersOf, Reply, no_readers, refusal_text
from protocol.errors import WireError
from protocol.ethereum.signer import Signer
from protocol.streamr.stream_message import EncryptionType, StreamMessage, parse_stream_message

IN_FLIGHT_PER_CONNECTION = 25

Value = TypeVar("Value")


class HttpPublisher:
    def __init__(
        self,
        name: str,
        node: NodeSettings,
        signer: Signer,
        *,
        connections: int = 4,
        create_streams: bool = True,
        readers_of: ReadersOf = no_readers,
    ) -> None:
        """`create_streams`: create missing streams under the device's address."""
        self.name = name
        self.max_in_flight = connections * IN_FLIGHT_PER_CONNECTION
        self._node = node
        self._signer = signer
        self._connections = connections
        self._create_streams = create_streams
        self._readers_of = readers_of
        self._box = OutcomeQueue()
        self._workers: list[_Worker] = []

    async def connect(self) -> None:
        await self.close()
        self._box = OutcomeQueue()
        tls = self._node.url.tls_context(self._node.ca_file)
        session = NodeSession(self._new_rest(tls), self._signer)
        try:
            await asyncio.to_thread(session.token)
        except Rejected as problem:  # of the login, not of a message
            raise LinkDown(str(problem)) from problem
        loop = asyncio.get_running_loop()
        self._workers = [
            _Worker(
                _Poster(self._new_rest(tls), session, self._readers_of, create_streams=self._create_streams),
                self._box,
                loop,
            )
            for _ in range(self._connections)
        ]

    async def send(self, records: Sequence[Record]) -> None:
        self._box.check()
        for record in records:
            self._workers[zlib.crc32(record.chain.encode()) % len(self._workers)].add(record)

    async def outcomes(self) -> Sequence[Outcome]:
        return await self._box.take()

    async def close(self) -> None:
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.close()

    def _new_rest(self, tls: ssl.SSLContext | None) -> NodeRest:
        return NodeRest(self._node.url, timeout_s=self._node.deadline_s, tls=tls)


class _Worker:
    """One connection and the thread that uses it. What is added waits for its turn in the thread."""

    def __init__(self, poster: "_Poster", box: OutcomeQueue, loop: asyncio.AbstractEventLoop) -> None:
        self._poster = poster
        self._box = box
        self._loop = loop
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="publish-http")
        self._is_closed = False

    def add(self, record: Record) -> None:
        self._thread.submit(self._post, record)

    def close(self) -> None:
        """Close without sending what is queued; a request in flight ends by its own timeout."""
        self._is_closed = True
        self._thread.submit(self._poster.close)
        self._thread.shutdown(wait=False)

    def _post(self, record: Record) -> None:
        if self._is_closed:
            return
        try:
            self._poster.post(record)
        except Rejected as problem:
            self._in_loop(self._box.put, RejectedRun(*run_of([record]), str(problem)))
        except LinkDown as problem:
            self._is_closed = True  # or the next message of the chain would overtake
            self._in_loop(self._box.fail, problem)
        else:
            self._in_loop(self._box.put, Acknowledged(*run_of([record])))

    def _in_loop(self, function: Callable[[Value], None], value: Value) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and no task waits for this any more
            self._loop.call_soon_threadsafe(function, value)


class _Poster:
    """Posts one message and waits for the response; blocks."""

    def __init__(self, rest: NodeRest, session: NodeSession, readers_of: ReadersOf, *, create_streams: bool) -> None:
        self._rest = rest
        self._session = session
        self._readers_of = readers_of
        self._create_streams = create_streams

    def post(self, record: Record) -> None:
        """Raises: LinkDown, Rejected."""
        try:
            message = parse_stream_message(record.payload)
        except WireError as problem:
            raise Rejected(f"not a stream message: {problem}") from problem
        reply = self._post(message)
        if reply.status == HTTPStatus.UNAUTHORIZED:
            self._session.drop_token()
            reply = self._post(message)
        obstacle, (stream_id, partition, *_) = "", message.message_id
        if reply.status == HTTPStatus.FORBIDDEN and self._session.has_just_created(stream_id):
            reply = self._post(message)
        if reply.status == HTTPStatus.NOT_FOUND and self._create_streams:
            obstacle = self._session.create_stream(stream_id, partition + 1)
            reply = self._post(message)
        self._judge(reply, obstacle)
        self._session.share_stream(stream_id, self._readers_of(stream_id))

    def close(self) -> None:
        self._rest.close()

    def _post(self, message: StreamMessage) -> Reply:
        path = f"/streams/{quote(message.message_id.stream_id, safe='')}/data?{urlencode(publish_query(message))}"
        headers = {"Authorization": f"Bearer {self._session.token()}"}
        return self._rest.post(path, message.content.encode(), headers)

    def _judge(self, reply: Reply, obstacle: str) -> None:
        if reply.status == HTTPStatus.OK:
            return
        problem = f"{self._rest.url}: {refusal_text(reply)} {obstacle}".rstrip()
        raise LinkDown(problem) if reply.may_pass or reply.status == HTTPStatus.UNAUTHORIZED else Rejected(problem)


def publish_query(message: StreamMessage) -> dict[str, str | int]:
    """All of a signed message but its content."""
    _, partition, timestamp, sequence, publisher, chain = message.message_id
    query: dict[str, str | int | None] = {
        "ts": timestamp,
        "seq": sequence,
        "address": publisher,
        "msgChainId": chain,
        "signatureType": int(message.signature_type),
        "signature": message.signature,
        "partition": partition,
        "prev_ts": None if message.prev_msg_ref is None else message.prev_msg_ref.timestamp,
        "prev_seq": None if message.prev_msg_ref is None else message.prev_msg_ref.sequence_number,
    }
    if message.encryption_type is not EncryptionType.NONE:
        query |= {
            "encryptionType": int(message.encryption_type),
            "groupKeyId": message.group_key_id,
            "newGroupKey": None if message.new_group_key is None else message.new_group_key.serialized,
        }
    return {name: value for name, value in query.items() if value is not None}
