"""The page within the agent, with a pipeline that only has a configuration."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agent.config.page import PageConfig
from agent.service.page import page as page_module
from agent.service.page.page import serve_page
from testbed.processes import free_port
from tests.support.patience import PATIENCE_S


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "RETRY_S", 0.02)
    monkeypatch.setattr(page_module, "SAMPLE_S", 0.02)


def config(**page: Any) -> SimpleNamespace:
    return SimpleNamespace(page=PageConfig(**page))


def serve(pipeline: SimpleNamespace, meanwhile: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(PATIENCE_S):
            serving = asyncio.create_task(serve_page(pipeline, None))  # type: ignore[arg-type]
            await meanwhile()
            serving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await serving

    asyncio.run(run())


async def health(port: int) -> bytes:
    """The first line of the answer, or nothing while there is no answer."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return b""
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer.split(b"\r\n")[0]


async def until(port: int, answer: bytes) -> None:
    while await health(port) != answer:  # noqa: ASYNC110 - what listens there sends no notice
        await asyncio.sleep(0.01)


async def until_logged(caplog: pytest.LogCaptureFixture, text: str) -> None:
    while text not in caplog.text:  # noqa: ASYNC110 - nor does the log
        await asyncio.sleep(0.01)


def taken_port() -> socket.socket:
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    return taken


OK = b"HTTP/1.1 200 OK"


def test_a_port_that_is_in_use_is_logged_once_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    taken = taken_port()
    port = taken.getsockname()[1]
    pipeline = SimpleNamespace(config=config(listen=f"127.0.0.1:{port}"), collectors={})

    async def free_it() -> None:
        await until_logged(caplog, "cannot start the status page, retrying")
        await asyncio.sleep(0.1)  # in which it tries some more
        taken.close()
        await until(port, OK)

    serve(pipeline, free_it)
    assert caplog.text.count("cannot start the status page, retrying") == 1
    assert f"listen=127.0.0.1:{port}" in caplog.text


def test_a_new_configuration_moves_the_page(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    first, second = free_port(), free_port()
    pipeline = SimpleNamespace(config=config(listen=f"127.0.0.1:{first}"), collectors={})

    async def move() -> None:
        await until(first, OK)
        pipeline.config = config(listen=f"127.0.0.1:{second}")
        await until(second, OK)
        assert await health(first) == b""

    serve(pipeline, move)
    assert f"status page; url=http://127.0.0.1:{second}/" in caplog.text


def test_it_ends_when_it_is_turned_off() -> None:
    port = free_port()
    pipeline = SimpleNamespace(config=config(listen=f"127.0.0.1:{port}"), collectors={})

    async def run() -> None:
        async with asyncio.timeout(PATIENCE_S):
            serving = asyncio.create_task(serve_page(pipeline, None))  # type: ignore[arg-type]
            await until(port, OK)
            pipeline.config = config(listen="off")
            await serving
            assert await health(port) == b""

    asyncio.run(run())


def test_a_token_that_went_missing_closes_the_page_and_not_the_agent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token, port = tmp_path / "token", free_port()
    pipeline = SimpleNamespace(config=config(listen=f"127.0.0.1:{port}", token_file=token), collectors={})

    async def put_it_back() -> None:
        await until_logged(caplog, "cannot start the status page")
        assert await health(port) == b""
        token.touch(mode=0o600)
        token.write_text("correct-horse-battery-staple")
        await until(port, OK)

    serve(pipeline, put_it_back)
