"""Opening what bytes come from."""

import asyncio
import socket
from typing import Any

import pytest

from drivers.byte_source import open_tcp
from drivers.errors import DeviceError


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def test_a_converter_is_reached_by_the_first_of_its_addresses_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(server: socket.socket) -> None:
        port: int = server.getsockname()[1]
        found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", each)) for each in (free_port(), port)]

        async def addresses(*_: Any, **__: Any) -> list[Any]:
            return found

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", addresses)
        source = await open_tcp("converter", port)
        assert source.where == f"tcp://converter:{port}"
        accepted, _ = server.accept()
        accepted.sendall(b"hello")
        assert await source.read(5) == b"hello"
        accepted.close()
        source.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        asyncio.run(test(server))


def test_a_converter_that_does_not_answer_is_named() -> None:
    port = free_port()
    with pytest.raises(DeviceError, match=rf"tcp://127\.0\.0\.1:{port} does not answer \(.*refused\); check address"):
        asyncio.run(open_tcp("127.0.0.1", port))
