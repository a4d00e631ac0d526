"""One connection to a broker: paho without its threads, driven by the event loop."""

import asyncio
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

from drivers.errors import DeviceError
from drivers.mqtt.ledger import Message
from drivers.mqtt.settings import MqttSettings

if TYPE_CHECKING:
    import socket

    from paho.mqtt.client import Client

    from drivers.mqtt.client import BulkClient

__all__ = ["MqttConnection"]

MAX_WAITING: Final = 1000  # messages; more may come with the read that reaches it, and no read follows that one
MISC_INTERVAL_S: Final = 1.0


class MqttConnection:
    def __init__(self, name: str, settings: MqttSettings) -> None:
        self._name = name
        self._settings = settings
        self._client: BulkClient | None = None
        self._socket: socket.socket | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._waiting: list[Message] = []
        self._something_came = asyncio.Event()
        self._failure = ""
        self._answered: asyncio.Future[None] | None = None

    async def open(self, filters: Sequence[str]) -> None:
        """Connect and subscribe. Raises: DeviceError."""
        settings = self._settings
        loop = asyncio.get_running_loop()
        self._answered = loop.create_future()
        try:
            async with asyncio.timeout(settings.connect_timeout_s):
                self._client = client = await asyncio.to_thread(self._connected_client)
                self._watch(client)
                await self._answered
                self._answered = loop.create_future()
                client.subscribe([(topic, int(settings.qos)) for topic in filters])
                await self._answered
        except TimeoutError:
            self.close()
            raise self._error(f"no answer within {settings.connect_timeout_s:g} s") from None
        except (OSError, ValueError) as error:  # refused, unknown host, wrong certificate
            self.close()
            raise self._error(getattr(error, "strerror", None) or str(error)) from error
        except DeviceError:
            self.close()
            raise

    async def receive(self, max_messages: int, timeout_s: float) -> list[Message]:
        """What came, at once if anything waits; [] when nothing came in time. Raises: DeviceError."""
        if not self._waiting:
            self._something_came.clear()
            if self._failure:
                raise self._error(self._failure)
            try:
                await asyncio.wait_for(self._something_came.wait(), timeout_s)
            except TimeoutError:
                return []
        if not self._waiting and self._failure:
            raise self._error(self._failure)
        messages, self._waiting = self._waiting[:max_messages], self._waiting[max_messages:]
        self._resume_reading()
        return messages

    def acknowledge(self, numbers: Collection[int]) -> None:
        if self._client is not None and numbers:
            self._client.acknowledge(numbers)

    def close(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            self._keeper = None
        client, self._client = self._client, None
        if client is not None:
            client.disconnect()
        unsent = self._socket  # a link that is stuck keeps it open; who said goodbye has closed it
        self._forget_socket()
        if unsent is not None:
            unsent.close()

    def _connected_client(self) -> "BulkClient":
        """In a thread, for name look-up, TCP and TLS block."""
        from drivers.mqtt.client import BulkClient

        client = BulkClient(self._name, self._settings)
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_disconnect = self._on_disconnect
        client.open()
        return client

    def _watch(self, client: "BulkClient") -> None:
        found = client.socket()
        if found is None:
            raise OSError("the connection broke")
        loop = asyncio.get_running_loop()
        self._socket = found  # type: ignore[assignment]  # a real one: websockets are not used
        client.on_socket_register_write = lambda *_: self._want_write()
        client.on_socket_close = lambda *_: self._forget_socket()
        loop.add_reader(found, self._readable)
        if client.want_write():
            self._want_write()
        self._keeper = loop.create_task(self._keep_alive(client), name=f"{self._name}: keep-alive")

    def _readable(self) -> None:
        client = self._client
        if client is None or self._socket is None:
            return
        try:
            self._take(client.read_all())
            while self._has_decrypted() and len(self._waiting) < MAX_WAITING:
                self._take(client.read_all())
        except ValueError as error:
            self._fail(f"the broker sends {error}")
            self.close()
        if len(self._waiting) >= MAX_WAITING and self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._answer("")  # such a backlog proves that the session has our subscriptions; their answer is behind it

    def _take(self, messages: Sequence[Message]) -> None:
        if messages:
            self._waiting += messages
            self._something_came.set()

    def _fail(self, failure: str) -> None:
        self._failure = self._failure or failure
        self._something_came.set()
        self._answer(failure)

    def _has_decrypted(self) -> bool:
        """TLS may have taken more from the socket than one packet; the event loop cannot see that."""
        pending = getattr(self._socket, "pending", None)
        return pending is not None and pending() > 0

    def _resume_reading(self) -> None:
        if self._socket is not None and len(self._waiting) < MAX_WAITING:
            asyncio.get_running_loop().add_reader(self._socket, self._readable)
            if self._has_decrypted():
                asyncio.get_running_loop().call_soon(self._readable)

    def _want_write(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().add_writer(self._socket, self._writable)

    def _writable(self) -> None:
        client = self._client
        if client is not None:
            client.loop_write()
        if self._socket is not None and (client is None or not client.want_write()):
            asyncio.get_running_loop().remove_writer(self._socket)

    async def _keep_alive(self, client: "BulkClient") -> None:
        while True:
            client.loop_misc()
            await asyncio.sleep(MISC_INTERVAL_S)

    def _forget_socket(self) -> None:
        found, self._socket = self._socket, None
        if found is not None and found.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(found)
            asyncio.get_running_loop().remove_writer(found)

    def _on_connect(self, _client: "Client", _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        self._answer(f"the broker refuses us: {reason}" if reason.is_failure else "")

    def _on_subscribe(self, _client: "Client", _data: Any, _number: int, reasons: list[Any], _properties: Any) -> None:
        refused = [str(reason) for reason in reasons if reason.is_failure]
        self._answer(f"the broker refuses a subscription: {refused[0]}" if refused else "")

    def _on_disconnect(self, _client: "Client", _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        self._fail(f"the connection broke: {reason}")

    def _answer(self, failure: str) -> None:
        if self._answered is not None and not self._answered.done():
            if failure:
                self._answered.set_exception(self._error(failure))
            else:
                self._answered.set_result(None)
        elif failure:
            self._failure = self._failure or failure
            self._something_came.set()

    def _error(self, problem: str) -> DeviceError:
        where = f"{self._settings.host}:{self._settings.port}"
        return DeviceError(f"{self._name}: broker {where}: {problem}; check address, credentials and the broker's log")
