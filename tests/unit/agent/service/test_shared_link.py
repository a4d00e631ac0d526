"""Links that are shared over a socket: every request has a response, and no other user can send one."""

import asyncio
import contextlib
import json
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.service.local_socket import MAX_CLIENTS, MAX_LINE_BYTES
from agent.service.shared_link import _response_to, open_shared_link, share_links
from drivers import DeviceError
from firmware_bridge import CommandRejected, DeviceRequests, LinkDown
from protocol.link import (
    CommandDescription,
    CommandResult,
    CommandStatus,
    CommandValue,
    Hello,
    Message,
    UpdateQuery,
    UpdateReason,
    UpdateState,
    UpdateStatus,
)
from tests.support.model_device import COMMANDS, ModelDevice
from tests.support.patience import PATIENCE_S

HELLO = ModelDevice()._hello(0.0)
STATUS = UpdateStatus(next_offset=0, state=UpdateState.IDLE, reason=UpdateReason.NONE)


class KnownAnswers(DeviceRequests):
    """Knows what a device would say."""

    def __init__(self) -> None:
        self.called: list[tuple[str, CommandValue]] = []

    async def opened(self, timeout_s: float = 1) -> Hello:  # noqa: ARG002 - it knows at once
        return HELLO

    async def commands(self) -> tuple[CommandDescription, ...]:
        return COMMANDS

    async def ask(self, message: Message, patience_s: float = 1) -> Message:  # noqa: ARG002
        if message != UpdateQuery():
            raise CommandRejected("only questions")
        return STATUS

    async def call(self, name: str, argument: CommandValue = None, patience_s: float = 1) -> CommandResult:  # noqa: ARG002
        self.called.append((name, argument))
        if name == "silent":
            raise LinkDown("no answer")
        return CommandResult(id=1, status=CommandStatus.DONE, value=7)


@contextlib.asynccontextmanager
async def lending(path: Path) -> AsyncIterator[KnownAnswers]:
    known = KnownAnswers()
    task = asyncio.create_task(share_links(path, lambda name: known if name == "mcu" else None))
    while not await is_listening(path):  # noqa: ASYNC110 - a socket sends no notice
        await asyncio.sleep(0.001)
    try:
        yield known
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def is_listening(path: Path) -> bool:
    try:
        _, writer = await asyncio.open_unix_connection(path)
    except OSError:
        return False
    writer.close()
    await writer.wait_closed()
    return True


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await test()

    asyncio.run(bounded())


def test_what_is_asked_of_a_lent_link_is_asked_of_the_device(tmp_path: Path) -> None:
    async def test() -> None:
        async with lending(tmp_path / "s") as known, open_shared_link(tmp_path / "s", "mcu") as link:
            assert await link.opened() == HELLO
            assert await link.commands() == list(COMMANDS)
            assert await link.ask(UpdateQuery()) == STATUS
            assert (await link.call("count", 1)).value == 7
            assert (await link.call("echo", "é")).value == 7
            assert known.called == [("count", 1), ("echo", "é")]
        assert not (tmp_path / "s").exists()

    run(test)


def test_a_refusal_of_the_device_is_reported_as_over_a_direct_link(tmp_path: Path) -> None:
    async def test() -> None:
        async with lending(tmp_path / "s"), open_shared_link(tmp_path / "s", "mcu") as link:
            with pytest.raises(LinkDown, match="no answer"):
                await link.call("silent")
            with pytest.raises(CommandRejected, match="only questions"):
                await link.ask(STATUS)
            assert await link.opened() == HELLO, "it goes on"
        async with lending(tmp_path / "s"), open_shared_link(tmp_path / "s", "other") as link:
            with pytest.raises(LinkDown, match="driver other has no link"):
                await link.opened()

    run(test)


def test_only_the_agents_own_user_may_borrow_and_only_a_few_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "s"

    async def test() -> None:
        async with lending(path), contextlib.AsyncExitStack() as stack:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            links = [await stack.enter_async_context(open_shared_link(path, "mcu")) for _ in range(MAX_CLIENTS)]
            for link in links:
                await link.opened()
            one_more = await stack.enter_async_context(open_shared_link(path, "mcu"))
            with pytest.raises(LinkDown, match="no answer from the agent"):
                await one_more.opened()

    run(test)


def test_a_socket_that_was_left_behind_is_replaced_and_one_that_cannot_be_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        (tmp_path / "s").touch()
        async with lending(tmp_path / "s"), open_shared_link(tmp_path / "s", "mcu") as link:
            assert await link.opened() == HELLO
        await share_links(tmp_path / ("long" * 50), lambda _: None)
        assert "links are not available to tools" in caplog.text
        with pytest.raises(DeviceError, match="and the agent cannot be reached"):
            async with open_shared_link(tmp_path / "s", "mcu"):
                pass

    run(test)


def test_a_line_without_end_ends_its_connection_and_no_other(tmp_path: Path) -> None:
    async def test() -> None:
        async with lending(tmp_path / "s"), open_shared_link(tmp_path / "s", "mcu") as other:
            reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
            writer.write(b"x" * (MAX_LINE_BYTES * 3))
            with contextlib.suppress(OSError):
                assert await reader.read() == b""
            writer.transport.abort()
            assert await other.opened() == HELLO

    run(test)


words = st.sampled_from(["driver", "do", "opened", "ask", "call", "commands", "mcu", "message", "timeout_s", "00ff00"])
values = st.none() | st.booleans() | st.integers() | st.floats() | words | st.lists(words, max_size=3)


@given(st.binary(max_size=80) | st.dictionaries(words, values, max_size=5).map(lambda each: json.dumps(each).encode()))
def test_any_line_gets_an_answer(line: bytes) -> None:
    known = KnownAnswers()
    answer: dict[str, Any] = asyncio.run(_response_to(line, lambda name: known if name == "mcu" else None))
    assert answer.keys() & {"message", "messages", "error"}


def test_a_line_of_brackets_gets_an_response_too() -> None:
    answer = asyncio.run(_response_to(b"[" * (MAX_LINE_BYTES - 1), lambda _: None))
    assert answer["error"] == "DeviceError"


@pytest.mark.parametrize(
    "asked",
    [
        {"do": "call", "name": ["led"], "argument": 1, "patience_s": 1},
        {"do": "call", "name": "led", "argument": [0] * 1000, "patience_s": 1},
        {"do": "call", "name": "led", "argument": {}, "patience_s": 1},
        {"do": "opened", "timeout_s": 10**400},
    ],
)
def test_what_no_device_could_be_asked_never_gets_to_its_session(asked: dict[str, Any]) -> None:
    """There it would meet what the agent reads of the device."""
    known = KnownAnswers()
    line = json.dumps({"driver": "mcu", **asked}).encode()
    assert asyncio.run(_response_to(line, lambda _: known))["error"] == "DeviceError"
    assert known.called == []
