"""One connection to a broker, driven by the event loop.

Promises, each with a test that can fail:

1. Whatever a broker sends, the connection continues or ends; it never loops without progress.
2. Memory is bounded both ways: by the size of one packet, by `MAX_WAITING` messages or `MAX_WAITING_BYTES` that were
   not received yet (then reading stops, and the broker holds the rest), and by a limit of unsent packets.
3. Every wait has a deadline: connecting and subscribing together `connect_timeout_s`, the response to a ping
   `keepalive_s`, disconnecting `DISCONNECT_S`.
4. What was acknowledged before `close` has reached the broker, unless the connection broke or the broker does not read.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

from runtime.errors import LinkDown, connection_error_text
from runtime.mqtt.packets import Message
from runtime.mqtt.settings import BrokerSettings

if TYPE_CHECKING:
    import socket

    from paho.mqtt.client import Client

    from runtime.mqtt.client import PacketClient

MAX_WAITING: Final = 1000  # messages; the read that reaches it may add more, and is the last
MAX_WAITING_BYTES: Final = 4 * 1024 * 1024
KEEP_ALIVE_CHECK_S: Final = 1.0
DISCONNECT_S: Final = 1.0
_PACKET_TOO_LARGE: Final = 0x95

Published = Callable[[int, Any], None]  # a publication's number, and the broker's reason code


class MqttLink:
    """One connection; it can be opened once.

    Args:
        max_packet_bytes: of a publication that the broker sends; a larger one ends the connection.
        receive_maximum: how many publications the broker may send before an acknowledgement (version 5 only).
        published: called for each PUBACK.
        ended: called once if the connection ends before `close`.
    """

    def __init__(
        self,
        broker: BrokerSettings,
        *,
        max_packet_bytes: int,
        receive_maximum: int = 0xFFFF,
        published: Published | None = None,
        ended: Callable[[LinkDown], None] | None = None,
    ) -> None:
        self.session_is_resumed = False  # whether the broker knew the session; once open
        self.properties: Any = None  # of CONNACK, in version 5
        self._broker = broker
        self._max_packet_bytes = max_packet_bytes
        self._receive_maximum = receive_maximum
        self._published = published
        self._ended = ended
        self._client: PacketClient | None = None
        self._socket: socket.socket | None = None
        self._keeping_alive: asyncio.Task[None] | None = None
        self._received: list[Message] = []
        self._received_bytes = 0
        self._has_news = asyncio.Event()
        self._failure: LinkDown | None = None
        self._answered: asyncio.Future[list[str]] | None = None
        self._subscription = 0  # the number of SUBSCRIBE

    # Opening and closing

    async def open(self, filters: Sequence[str] = (), qos: int = 1) -> list[str]:
        """Connect, and subscribe if there are filters. Returns the reason of each refused filter, "" for the others.

        Raises: LinkDown; ConfigError for a file that holds a secret and is not private.
        """
        try:
            async with asyncio.timeout(self._broker.connect_timeout_s):
                await self._connect()
                return await self._subscribe(filters, qos) if filters else []
        except TimeoutError:
            self._abandon()
            raise self._down(f"no answer within {self._broker.connect_timeout_s:g} s") from None
        except (OSError, ValueError) as error:  # refused, unknown host, wrong certificate
            self._abandon()
            raise self._down(connection_error_text(error, self._broker.host)) from error
        except BaseException:
            self._abandon()
            raise

    async def close(self) -> None:
        """Send pending packets and DISCONNECT, and wait a short time until the broker has read them. Never fails."""
        client = self._client
        if client is not None and self._socket is not None and self._failure is None:
            self._stop_reading()
            with contextlib.suppress(OSError, ValueError, TimeoutError):
                async with asyncio.timeout(DISCONNECT_S):
                    await self._disconnect(client, self._socket)
        self._abandon()

    async def _connect(self) -> None:
        from runtime.mqtt.client import PacketClient

        client = PacketClient(
            self._broker, max_packet_bytes=self._max_packet_bytes, receive_maximum=self._receive_maximum
        )
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_disconnect = self._on_disconnect
        client.on_publish = self._on_publish
        answered = self._expect_answer()
        connecting = asyncio.ensure_future(asyncio.to_thread(client.open))
        try:
            await asyncio.shield(connecting)
        except BaseException:
            connecting.add_done_callback(lambda done: _drop_late(done, client))
            raise
        self._client = client
        self._watch(client)
        await answered

    async def _subscribe(self, filters: Sequence[str], qos: int) -> list[str]:
        assert self._client is not None
        answered = self._expect_answer()
        _, number = self._client.subscribe([(topic, qos) for topic in filters])
        self._subscription = number or 0
        if self._is_full():
            self._answer_for_backlog()
        return await answered

    def _expect_answer(self) -> "asyncio.Future[list[str]]":
        if self._failure is not None:
            raise self._failure
        self._answered = asyncio.get_running_loop().create_future()
        return self._answered

    async def _disconnect(self, client: "PacketClient", found: "socket.socket") -> None:
        """Send DISCONNECT after all acknowledgements. Closing a socket with unread data would reset the connection, and
        the broker could lose data that it has not read; so the unread data is read and discarded first."""
        loop = asyncio.get_running_loop()
        client.on_disconnect = None
        client.send_disconnect()
        while client.socket() is not None and client.want_write():
            await _ready(found, loop.add_writer, loop.remove_writer)
            client.loop_write()
        while client.socket() is not None and client.discard():
            await _ready(found, loop.add_reader, loop.remove_reader)

    def _abandon(self) -> None:
        if self._keeping_alive is not None:
            self._keeping_alive.cancel()
            self._keeping_alive = None
        self._release_socket()
        client, self._client = self._client, None
        if client is not None:
            client.abandon()

    # Receiving

    async def receive(self, max_messages: int, timeout_s: float) -> list[Message]:
        """The received messages, at once if there are any; [] if none arrived in time. Raises: LinkDown."""
        if not self._received:
            self._has_news.clear()
            if self._failure is not None:
                raise self._failure
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._has_news.wait()
        if not self._received and self._failure is not None:
            raise self._failure
        messages, self._received = self._received[:max_messages], self._received[max_messages:]
        self._received_bytes = sum([len(message.payload) for message in self._received])
        self._resume_reading()
        return messages

    def acknowledge(self, numbers: Collection[int]) -> None:
        """Acknowledge messages of this link. After its end this does nothing: the broker sends them again."""
        if self._client is not None and self._failure is None and numbers:
            try:
                self._client.acknowledge(numbers)
            except ConnectionError as error:
                self._fail(str(error))

    def _readable(self) -> None:
        client = self._client
        if client is None or self._socket is None:
            return
        try:
            self._accept(client.read())
            while self._has_decrypted() and not self._is_full():
                self._accept(client.read())
        except ConnectionError as error:
            self._fail(str(error))
        except ValueError as error:
            self._fail(f"the broker sends {error}")
        if self._is_full() and self._failure is None:
            self._stop_reading()
            self._answer_for_backlog()

    def _answer_for_backlog(self) -> None:
        """With such a backlog the session has our subscriptions; their SUBACK comes after it, unread."""
        self._answer([])

    def _accept(self, messages: Sequence[Message]) -> None:
        if messages:
            self._received += messages
            self._received_bytes += sum([len(message.payload) for message in messages])
            self._has_news.set()

    def _is_full(self) -> bool:
        return len(self._received) >= MAX_WAITING or self._received_bytes >= MAX_WAITING_BYTES

    def _has_decrypted(self) -> bool:
        """Whether TLS holds decrypted data, which the event loop cannot see."""
        pending = getattr(self._socket, "pending", None)
        return pending is not None and pending() > 0

    def _resume_reading(self) -> None:
        if self._socket is not None and not self._is_full():
            asyncio.get_running_loop().add_reader(self._socket, self._readable)
            if self._has_decrypted():
                asyncio.get_running_loop().call_soon(self._readable)

    def _stop_reading(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)

    # Publishing

    def publish(self, topic: str, payload: bytes) -> int:
        """Publish with QoS 1. Returns the number that `published` is called with. Raises: LinkDown."""
        if self._failure is not None or self._client is None:
            raise self._failure or self._down("not connected")
        info = self._client.publish(topic, payload, qos=1)
        if info.rc:
            raise self._down(f"cannot publish: {info.rc.name}")
        return info.mid

    # The socket

    def _watch(self, client: "PacketClient") -> None:
        found = client.socket()
        if found is None:
            raise ConnectionError("the connection broke")
        loop = asyncio.get_running_loop()
        self._socket = found  # type: ignore[assignment]  # a real one: websockets are not used
        client.on_socket_register_write = lambda *_: self._watch_writable()
        client.on_socket_close = lambda *_: self._release_socket()
        loop.add_reader(found, self._readable)
        if client.want_write():
            self._watch_writable()
        self._keeping_alive = loop.create_task(self._keep_alive(client), name=f"{self._broker.url}: keep-alive")

    def _watch_writable(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().add_writer(self._socket, self._write)

    def _write(self) -> None:
        client = self._client
        if client is not None:
            client.loop_write()
        if self._socket is not None and (client is None or not client.want_write()):
            asyncio.get_running_loop().remove_writer(self._socket)

    async def _keep_alive(self, client: "PacketClient") -> None:
        while True:
            await asyncio.sleep(KEEP_ALIVE_CHECK_S)
            try:
                client.keep_alive(is_reading=not self._is_full())
            except ConnectionError as error:
                self._fail(str(error))
                return

    def _release_socket(self) -> None:
        found, self._socket = self._socket, None
        if found is not None and found.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(found)
            asyncio.get_running_loop().remove_writer(found)

    # Callbacks of paho, in the event loop's thread

    def _on_connect(self, _client: "Client", _data: Any, flags: Any, reason: Any, properties: Any) -> None:
        self.session_is_resumed = flags.session_present
        self.properties = properties
        if reason.is_failure:
            self._fail(f"the broker refuses the connection: {reason}")
        else:
            self._answer([])

    def _on_subscribe(self, _client: "Client", _data: Any, number: int, reasons: list[Any], _properties: Any) -> None:
        if number == self._subscription:
            self._answer([str(reason) if reason.is_failure else "" for reason in reasons])

    def _on_publish(self, _client: "Client", _data: Any, number: int, reason: Any, _properties: Any) -> None:
        if self._published is not None:
            self._published(number, reason)

    def _on_disconnect(self, _client: "Client", _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        self._fail(f"the connection broke: {reason}", by_message=reason.value == _PACKET_TOO_LARGE)

    def _answer(self, answer: list[str]) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(answer)

    def _fail(self, problem: str, *, by_message: bool = False) -> None:
        """End the connection. Only the first problem is reported."""
        if self._failure is not None:
            return
        self._failure = self._down(problem, by_message=by_message)
        self._has_news.set()
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(self._failure)
        self._release_socket()
        asyncio.get_running_loop().call_soon(self._abandon)  # not now: paho may be in a callback, and holds its lock
        if self._ended is not None:
            self._ended(self._failure)

    def _down(self, problem: str, *, by_message: bool = False) -> LinkDown:
        return LinkDown(f"{self._broker.url}: {problem}", by_message=by_message)


def _drop_late(connecting: "asyncio.Future[None]", client: "PacketClient") -> None:
    """Close a connection that was made after its deadline."""
    if not connecting.cancelled() and connecting.exception() is None:
        client.abandon()


async def _ready(
    found: "socket.socket",
    watch: "Callable[[socket.socket, Callable[[], None]], None]",
    unwatch: "Callable[[socket.socket], object]",
) -> None:
    is_ready = asyncio.Event()
    watch(found, is_ready.set)
    try:
        await is_ready.wait()
    finally:
        if found.fileno() >= 0:
            unwatch(found)
