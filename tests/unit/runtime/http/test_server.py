"""The server against clients that behave, and against those that do not. Real sockets, on loopback."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from protocol.errors import HeadgateError
from runtime.http import HttpError, HttpLimits, HttpServer, Request, Response, Upgrade
from tests.support.patience import PATIENCE_S

LIMITS = HttpLimits(
    max_connections=8, max_connections_per_address=8, max_head_bytes=8192, head_timeout_s=200, stop_grace_s=0
)
HEADERS = {"X-Policy": "strict"}
GET = b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"


class FunctionService:
    """Answers by a function, which may admit its clients."""

    def __init__(self, answer: Callable[[Request], Awaitable[Response | Upgrade]]) -> None:
        self._answer = answer

    async def answer(self, request: Request) -> Response | Upgrade:
        return await self._answer(request)

    def refuse(self, error: HttpError) -> Response:
        return Response(status=error.status, body=str(error).encode())


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

    async def head(self) -> bytes:
        """Protocol and status of an answer without a body."""
        return (await self._reader.readuntil(b"\r\n\r\n"))[:13]

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
    answer: Callable[[Request], Awaitable[Response | Upgrade]] = greet, limits: HttpLimits = LIMITS
) -> AsyncIterator[Callable[[], Awaitable[Client]]]:
    clients: list[Client] = []
    async with asyncio.timeout(PATIENCE_S):
        server = HttpServer(FunctionService(answer), limits, name="test server", headers=HEADERS)
        _, port = await server.start("127.0.0.1", 0)

        async def connect() -> Client:
            clients.append(Client(*await asyncio.open_connection("127.0.0.1", port)))
            return clients[-1]

        try:
            yield connect
        finally:
            for client in clients:
                client.close()
            await server.stop()


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

    answer = asyncio.run(run())
    assert b"Connection: close\r\n" in answer
    assert answer.endswith(b"9\r\ndata: 0\n\n\r\n9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n0\r\n\r\n")


def test_every_answer_carries_the_headers_of_the_server() -> None:
    async def run() -> bytes:
        async with serving() as connect:
            client = await connect()
            await client.send(b"nonsense\r\n\r\n")
            return await client.rest()

    answer = asyncio.run(run())
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"X-Policy: strict" in answer
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
    assert "test server: internal error; method=GET path=/fault" in caplog.text


@pytest.mark.parametrize("start", [b"", b"GET /hello HTTP/1.1\r\nHost: a\r\n", GET + b"GET "])
def test_who_does_not_finish_a_request_is_dropped(start: bytes) -> None:
    limits = replace(LIMITS, head_timeout_s=0.05)

    async def run() -> bytes:
        async with serving(limits=limits) as connect:
            client = await connect()
            await client.send(start)
            return await client.rest()

    assert asyncio.run(run()).count(b"HTTP/1.1") == start.count(b"\r\n\r\n")


def test_drop_by_drop_does_not_buy_time() -> None:
    limits = replace(LIMITS, head_timeout_s=0.2)

    async def run() -> bytes:
        async with serving(limits=limits) as connect:
            client = await connect()
            dripping = asyncio.create_task(drip(client))
            answer = await client.rest()
            dripping.cancel()
            return answer

    async def drip(client: Client) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                await client.send(b"X")
                await asyncio.sleep(0.02)

    assert asyncio.run(run()) == b""


def test_a_head_without_end_is_refused_while_it_comes() -> None:
    async def run() -> bytes:
        async with serving() as connect:
            client = await connect()
            await client.send(b"GET / HTTP/1.1\r\nX: " + b"x" * LIMITS.max_head_bytes)
            return await client.rest()

    assert asyncio.run(run()).startswith(b"HTTP/1.1 431 ")


def test_who_takes_nothing_is_dropped() -> None:
    limits = replace(LIMITS, send_timeout_s=0.05)
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
        async with serving(answer, limits) as connect:
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


def test_idle_clients_give_way_to_a_new_one() -> None:
    async def run() -> None:
        async with serving() as connect:
            idle = [await connect() for _ in range(LIMITS.max_connections)]
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


def test_clients_that_are_being_answered_are_not_evicted() -> None:
    release = asyncio.Event()

    async def slow(request: Request) -> Response:
        request.admit()
        await release.wait()
        return Response(body=b"done")

    async def run() -> None:
        async with serving(slow) as connect:
            busy = [await connect() for _ in range(LIMITS.max_connections)]
            for client in busy:
                await client.send(GET)
            turned_away = await connect()
            assert (await turned_away.rest()).startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
            release.set()
            for client in busy:
                assert (await client.answer())[1] == b"done"

    asyncio.run(run())


def test_a_client_whose_request_is_not_admitted_gives_way_while_it_is_answered() -> None:
    async def slow(request: Request) -> Response:
        if request.path == "/hello":
            await asyncio.Event().wait()
        return Response(body=b"done")

    async def run() -> None:
        async with serving(slow) as connect:
            hostile = [await connect() for _ in range(LIMITS.max_connections)]
            for client in hostile:
                await client.send(GET)
            newcomer = await connect()
            await newcomer.send(GET.replace(b"/hello", b"/"))
            assert (await newcomer.answer())[1] == b"done"
            assert await hostile[0].rest() == b""

    asyncio.run(run())


def test_a_watcher_of_an_admitted_stream_is_not_evicted() -> None:
    release = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        yield b"first"
        await release.wait()
        yield b"last"

    async def watch(request: Request) -> Response:
        request.admit()
        return Response(body=pieces())

    async def run() -> None:
        async with serving(watch) as connect:
            watchers = [await connect() for _ in range(LIMITS.max_connections)]
            for watcher in watchers:
                await watcher.send(GET)
            assert (await (await connect()).rest()).startswith(b"HTTP/1.1 503 ")
            release.set()
            for watcher in watchers:
                assert b"last" in await watcher.rest()

    asyncio.run(run())


async def echo(request: Request) -> Response:
    """The body as it comes in, piece by piece, and whether it was held back."""
    held_back = b"held back: " if request.body.is_held_back else b""
    return Response(body=held_back + await request.body.read())


POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n"


def test_a_body_is_requested_by_100_continue_if_the_client_holds_it_back() -> None:
    async def run() -> None:
        async with serving(echo) as connect:
            client = await connect()
            await client.send(POST + b"\r\nbody" + POST + b"Expect: 100-continue\r\n\r\n")
            assert (await client.answer())[1] == b"body"
            assert await client.head() == b"HTTP/1.1 100 "
            await client.send(b"more")
            assert (await client.answer())[1] == b"held back: more"

    asyncio.run(run())


def test_a_body_that_is_too_large_or_too_slow_is_refused() -> None:
    limits = replace(LIMITS, max_body_bytes=4, body_timeout_s=0.05)

    async def run(start: bytes) -> bytes:
        async with serving(echo, limits) as connect:
            client = await connect()
            await client.send(start)
            return (await client.rest()).split(b"\r\n")[0]

    assert asyncio.run(run(POST + b"\r\nbod")) == b"HTTP/1.1 408 Request Timeout"
    assert asyncio.run(run(POST.replace(b"4", b"5") + b"\r\n")) == b"HTTP/1.1 413 Request Entity Too Large"


def test_a_connection_is_upgraded_to_another_protocol() -> None:
    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rest: bytes) -> None:
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
        while len(rest) < 5:
            rest += await reader.read(100)
        writer.write(rest.upper())

    async def answer(_: Request) -> Upgrade:
        return Upgrade(serve=shout)

    async def run() -> bytes:
        async with serving(answer) as connect:
            client = await connect()
            await client.send(GET.replace(b"Host", b"Connection: Upgrade\r\nUpgrade: shout\r\nHost") + b"hel")
            await client.send(b"lo")
            return await client.rest()

    assert asyncio.run(run()) == b"HTTP/1.1 101 Switching Protocols\r\n\r\nHELLO"


def test_a_stream_that_fails_is_cut_short_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"first"
        raise HeadgateError("the disk is gone")

    async def answer(_: Request) -> Response:
        return Response(body=pieces())

    async def run() -> bytes:
        async with serving(answer) as connect:
            client = await connect()
            await client.send(GET)
            return await client.rest()

    assert not asyncio.run(run()).endswith(b"0\r\n\r\n")
    assert "test server: a response was cut short; problem=the disk is gone" in caplog.text


def test_a_stop_waits_for_admitted_requests_and_for_no_others() -> None:
    admitted, release = asyncio.Event(), asyncio.Event()

    async def slow(request: Request) -> Response:
        request.admit()
        admitted.set()
        await release.wait()
        return Response(body=b"done")

    async def run() -> None:
        server = HttpServer(FunctionService(slow), replace(LIMITS, stop_grace_s=PATIENCE_S), name="test server")
        _, port = await server.start("127.0.0.1", 0)
        idle, busy = [Client(*await asyncio.open_connection("127.0.0.1", port)) for _ in range(2)]
        await busy.send(GET)
        await admitted.wait()
        stopping = asyncio.create_task(server.stop())
        assert await idle.rest() == b""
        release.set()
        answer = await busy.rest()
        assert answer.endswith(b"done")
        assert b"Connection: close" in answer
        busy.close()
        await stopping
        idle.close()

    asyncio.run(run())
