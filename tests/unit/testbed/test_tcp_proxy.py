import asyncio

from testbed.tcp_proxy import TcpProxy


async def _ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        return await reader.read(100)
    finally:
        writer.transport.abort()


async def _respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"response to " + await reader.read(100))
    await writer.drain()


async def _with_proxy(requests: list[bytes]) -> tuple[list[bytes], int]:
    """The responses through a proxy that withholds those to PUT; empty where there is none."""
    server = await asyncio.start_server(_respond, "127.0.0.1", 0)
    proxy = TcpProxy(server.sockets[0].getsockname()[1])
    await proxy.start()
    proxy.withhold_responses("PUT /archives/")
    responses = []
    for request in requests:
        try:
            responses.append(await _ask(proxy.port, request))
        except ConnectionResetError:
            responses.append(b"")
    await proxy.stop()
    server.close()
    return responses, proxy.unanswered


def test_a_response_is_withheld_and_others_pass() -> None:
    responses, unanswered = asyncio.run(_with_proxy([b"HEAD /archives/1", b"PUT /archives/1", b"GET /receipts/1"]))
    assert responses == [b"response to HEAD /archives/1", b"", b"response to GET /receipts/1"]
    assert unanswered == 1
