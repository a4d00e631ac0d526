"""Opening what bytes come from."""

import asyncio
import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.byte_source import Throttle, open_tcp
from drivers.errors import DeviceError
from testbed.processes import free_port


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


def test_a_steady_device_is_never_paused() -> None:
    throttle = Throttle(1000)
    assert [throttle.pause_s(100, now_s) for now_s in range(1, 20)] == [0.0] * 19
    assert not throttle.flooded


def test_a_flood_is_paused_and_reported_until_it_ends() -> None:
    throttle = Throttle(1000)
    assert throttle.pause_s(3000, 0) == 2
    assert throttle.flooded
    throttle.pause_s(10, 10)
    assert not throttle.flooded


@given(st.lists(st.integers(0, 4096), max_size=200))
def test_a_reader_that_obeys_the_pauses_stays_within_the_rate(chunks: list[int]) -> None:
    throttle, now_s = Throttle(1000), 0.0
    for chunk in chunks:
        now_s += throttle.pause_s(chunk, now_s)
    assert sum(chunks) <= 1000 * (now_s + 1) + 1e-6
