"""The server against clients that behave, and against those that do not. Real sockets, on loopback."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from agent.page import server as server_module
from agent.page.request import MAX_HEAD_BYTES, Request
from agent.page.response import Response
from agent.page.server import MAX_CONNECTIONS, HttpServer

GET = b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"
PATIENCE_S = 20.0


async def greet(request: Request) -> Response:
    match request.path:
        case "/fault":
            raise RuntimeError("a fault, on purpose")
        case "/stream":
            return Response(content_type="text/event-stream", body=_counting())
        case _:
            return Response(body=f"{request.method} {request.path}".encode())


async def _counting() -> AsyncIterator[bytes]:
    for number in range(3):
        yield b"data: %d\n\n" % number
        await asyncio.sleep(0)


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def answer(self) -> tuple[bytes, bytes]:
        """Status line and body of one answer of known length."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        return head.split(b"\r\n")[0], await self._reader.readexactly(int(length.split(b":")[1]))

    async def rest(self) -> bytes:
        """Everything until the server ends the connection."""
        try:
            return await self._reader.read()
        except ConnectionError:
            return b""

    def close(self) -> None:
        self._writer.transport.abort()


@asynccontextmanager
async def serving(
    answer: Callable[[Request], Awaitable[Response]] = greet,
) -> AsyncIterator[Callable[[], Awaitable[Client]]]:
    clients: list[Client] = []
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        server = HttpServer(answer, group)
        port = await server.open("127.0.0.1", 0)

        async def connect() -> Client:
            clients.append(Client(*await asyncio.open_connection("127.0.0.1", port)))
            return clients[-1]

        try:
            yield connect
        finally:
            for client in clients:
                client.close()
            server.close()


def test_one_connection_serves_many_requests_in_their_order() -> None:
    async def run() -> None:
        async with serving() as connect:
            client = await connect()
            await client.send(GET + GET.replace(b"hello", b"again"))
            assert await client.answer() == (b"HTTP/1.1 200 OK", b"GET /hello")
            assert await client.answer() == (b"HTTP/1.1 200 OK", b"GET /again")
            await client.send(GET.replace(b"Host", b"Connection: close\r\nHost"))
            assert (await client.rest()).endswith(b"GET /hello")

    asyncio.run(run())


def test_a_head_has_the_length_and_no_body() -> None:
    async def run() -> bytes:
        async with serving() as connect:
            client = await connect()
            await client.send(GET.replace(b"GET", b"HEAD").replace(b"Host", b"Connection: close\r\nHost"))
            return await client.rest()

    answer = asyncio.run(run())
    assert b"Content-Length: 11\r\n" in answer
    assert answer.endswith(b"\r\n\r\n")


def test_a_stream_comes_piece_by_piece_and_ends_with_its_connection() -> None:
    async def run() -> bytes:
        async with serving() as connect:
            client = await connect()
            await client.send(GET.replace(b"/hello", b"/stream"))
            return await client.rest()

    assert asyncio.run(run()).endswith(b"\r\n\r\ndata: 0\n\ndata: 1\n\ndata: 2\n\n")


def test_every_answer_carries_the_policies() -> None:
    async def run() -> bytes:
        async with serving() as connect:
            client = await connect()
            await client.send(b"nonsense\r\n\r\n")
            return await client.rest()

    answer = asyncio.run(run())
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"Content-Security-Policy: default-src 'none'; script-src 'self'" in answer
    assert b"frame-ancestors 'none'" in answer
    assert b"X-Content-Type-Options: nosniff" in answer
    assert b"Connection: close" in answer


def test_a_fault_costs_its_client_an_answer_and_the_server_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with serving() as connect:
            client = await connect()
            await client.send(GET.replace(b"/hello", b"/fault"))
            status, body = await client.answer()
            assert status == b"HTTP/1.1 500 Internal Server Error"
            assert b"on purpose" not in body
            await client.send(GET)
            assert (await client.answer())[1] == b"GET /hello"

    asyncio.run(run())
    assert "fault of the status page; path=/fault" in caplog.text


@pytest.mark.parametrize("start", [b"", b"GET /hello HTTP/1.1\r\nHost: a\r\n", GET + b"GET "])
def test_who_does_not_finish_a_request_is_dropped(start: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "REQUEST_TIMEOUT_S", 0.05)

    async def run() -> bytes:
        async with serving() as connect:
            client = await connect()
            await client.send(start)
            return await client.rest()

    assert asyncio.run(run()).count(b"HTTP/1.1") == start.count(b"\r\n\r\n")


def test_drop_by_drop_does_not_buy_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "REQUEST_TIMEOUT_S", 0.2)

    async def run() -> bytes:
        async with serving() as connect:
            client = await connect()
            dripping = asyncio.create_task(drip(client))
            answer = await client.rest()
            dripping.cancel()
            return answer

    async def drip(client: Client) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                await client.send(b"x")
                await asyncio.sleep(0.02)

    assert asyncio.run(run()) == b""


def test_a_head_without_end_is_refused_while_it_comes() -> None:
    async def run() -> bytes:
        async with serving() as connect:
            client = await connect()
            await client.send(b"GET / HTTP/1.1\r\nX: " + b"x" * MAX_HEAD_BYTES)
            return await client.rest()

    assert asyncio.run(run()).startswith(b"HTTP/1.1 431 ")


def test_who_takes_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "SEND_TIMEOUT_S", 0.05)
    ended = asyncio.Event()

    async def flood() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * 65_536
        finally:
            ended.set()

    async def answer(_: Request) -> Response:
        return Response(body=flood())

    async def run() -> None:
        async with serving(answer) as connect:
            client = await connect()
            await client.send(GET)
            await ended.wait()

    asyncio.run(run())


def test_a_stream_ends_as_soon_as_its_client_leaves() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def silent() -> AsyncIterator[bytes]:
        try:
            yield b"hello"
            begun.set()
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def answer(_: Request) -> Response:
        return Response(body=silent())

    async def run() -> None:
        async with serving(answer) as connect:
            client = await connect()
            await client.send(GET)
            await begun.wait()
            client.close()
            await ended.wait()

    asyncio.run(run())


@pytest.fixture
def _nobody_is_dropped_for_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "REQUEST_TIMEOUT_S", 10 * PATIENCE_S)


@pytest.mark.usefixtures("_nobody_is_dropped_for_silence")
def test_idle_clients_give_way_to_a_new_one() -> None:
    async def run() -> None:
        async with serving() as connect:
            idle = [await connect() for _ in range(MAX_CONNECTIONS)]
            for client in idle:
                await client.send(GET)
                await client.answer()
            newcomer = await connect()
            await newcomer.send(GET)
            assert (await newcomer.answer())[1] == b"GET /hello"
            assert await idle[0].rest() == b"", "the one that waited longest"
            await idle[-1].send(GET)
            assert (await idle[-1].answer())[1] == b"GET /hello", "the others stay"

    asyncio.run(run())


@pytest.mark.usefixtures("_nobody_is_dropped_for_silence")
def test_clients_that_are_being_answered_are_not_pushed_out() -> None:
    release = asyncio.Event()

    async def slow(_: Request) -> Response:
        await release.wait()
        return Response(body=b"done")

    async def run() -> None:
        async with serving(slow) as connect:
            busy = [await connect() for _ in range(MAX_CONNECTIONS)]
            for client in busy:
                await client.send(GET)
            turned_away = await connect()
            assert await turned_away.rest() == b""
            release.set()
            for client in busy:
                assert (await client.answer())[1] == b"done"

    asyncio.run(run())
