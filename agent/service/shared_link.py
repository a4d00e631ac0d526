"""Shares a microcontroller's link, held by the agent, with `headgate firmware` and `headgate devices`.

A socket in the data directory, for the agent's own user only. Both sides send lines of JSON, one response to one
request, in which the messages of the link are frames in hex:

| request: `driver` and … | response |
|---|---|
| `"do": "opened", "timeout_s": 5` | `{"message": HELLO}` |
| `"do": "ask", "message": FW_…, "patience_s": 5` | `{"message": FW_STATUS}` |
| `"do": "call", "name": "led", "argument": 1, "patience_s": 10` | `{"message": RESULT}` |
| `"do": "commands"` | `{"messages": [DESC, …]}` |
| any that fails | `{"error": "LinkDown", "problem": "…"}` |
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Callable, Collection
from pathlib import Path
from typing import Any, Final

from agent.service.local_socket import MAX_LINE_BYTES, hang_up, serve_locally
from drivers.errors import DeviceError
from firmware_bridge import CommandRejected, DeviceRequests, LinkDown
from protocol.errors import HeadgateError
from protocol.link import (
    CommandDescription,
    CommandResult,
    CommandValue,
    Frame,
    Hello,
    LinkDecoder,
    Message,
    frame_of,
    message_in,
)

MAX_PATIENCE_S: Final = 300.0
ANSWER_GRACE_S: Final = 5.0  # beyond what the agent itself waits
_ERRORS: Final[dict[str, type[HeadgateError]]] = {"LinkDown": LinkDown, "CommandRejected": CommandRejected}

log = logging.getLogger(__name__)


# The agent's side


async def share_links(path: Path, requests_to: Callable[[str], DeviceRequests | None]) -> None:
    """Until cancelled. `requests_to`: by the name of a driver; None where it holds no such link."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(json.dumps(await _response_to(line, requests_to)).encode() + b"\n")
            await writer.drain()

    try:
        await serve_locally(path, converse, name="shared link")
    except OSError as error:
        log.warning("links are not available to tools; socket=%s problem=%s", path, error)


async def _response_to(line: bytes, requests_to: Callable[[str], DeviceRequests | None]) -> dict[str, Any]:
    try:
        question = json.loads(line)
        questions = requests_to(str(question["driver"]))
        if questions is None:
            return _failure(LinkDown(f"driver {question['driver']} has no link yet"))
        return await _do(question, questions)
    except HeadgateError as error:
        return _failure(error)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        return {"error": "DeviceError", "problem": f"the agent does not understand the request: {error!r:.100}"}


async def _do(question: dict[str, Any], questions: DeviceRequests) -> dict[str, Any]:
    match question["do"]:
        case "opened":
            return {"message": _text_of(await questions.opened(_seconds(question["timeout_s"])))}
        case "ask":
            asked = _message_of(question["message"])
            return {"message": _text_of(await questions.ask(asked, _seconds(question["patience_s"])))}
        case "call":
            name, argument, patience_s = question["name"], question["argument"], _seconds(question["patience_s"])
            if not isinstance(name, str) or not isinstance(argument, CommandValue):
                raise TypeError(f"{name!r:.40} with {argument!r:.40} is not a command")
            return {"message": _text_of(await questions.call(name, argument, patience_s))}
        case "commands":
            return {"messages": [_text_of(each) for each in await questions.commands()]}
        case other:
            raise ValueError(f"{other!r:.40} is not a known request")


def _seconds(value: Any) -> float:
    return min(MAX_PATIENCE_S, max(0.0, float(value)))


def _failure(error: HeadgateError) -> dict[str, Any]:
    return {"error": type(error).__name__, "problem": str(error)}


# The tool's side


class SharedLink:
    """A link through the agent, with the interface of `DeviceLink`."""

    def __init__(self, driver: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._driver = driver
        self._reader = reader
        self._writer = writer

    async def opened(self, timeout_s: float = 10.0) -> Hello:
        hello = _message_of((await self._ask(timeout_s, do="opened", timeout_s=timeout_s))["message"])
        if not isinstance(hello, Hello):
            raise CommandRejected(f"the agent answers with {hello.KIND.name} where HELLO is expected")
        return hello

    async def ask(self, message: Message, patience_s: float = 10.0) -> Message:
        answer = await self._ask(patience_s, do="ask", message=_text_of(message), patience_s=patience_s)
        return _message_of(answer["message"])

    async def call(self, name: str, argument: CommandValue = None, patience_s: float = 10.0) -> CommandResult:
        answer = await self._ask(patience_s, do="call", name=name, argument=argument, patience_s=patience_s)
        result = _message_of(answer["message"])
        if not isinstance(result, CommandResult):
            raise CommandRejected(f"{name} was answered with {result.KIND.name}")
        return result

    async def commands(self) -> Collection[CommandDescription]:
        found = map(_message_of, (await self._ask(10.0, do="commands"))["messages"])
        return [each for each in found if isinstance(each, CommandDescription)]

    async def _ask(self, within_s: float, **question: Any) -> dict[str, Any]:
        """Raises: LinkDown, CommandRejected, DeviceError."""
        try:
            async with asyncio.timeout(within_s + ANSWER_GRACE_S):
                self._writer.write(json.dumps({"driver": self._driver, **question}).encode() + b"\n")
                await self._writer.drain()
                answer: dict[str, Any] = json.loads(await self._reader.readline())
        except (OSError, ValueError) as error:  # also where it takes too long, or the agent has ended
            raise LinkDown(f"no answer from the agent; is it still running? ({error!r:.80})") from error
        if "error" in answer:
            raise _ERRORS.get(answer["error"], DeviceError)(answer["problem"])
        return answer


@contextlib.asynccontextmanager
async def open_shared_link(path: Path, driver: str) -> AsyncIterator[SharedLink]:
    """Raises: DeviceError if the agent does not share the link."""
    try:
        reader, writer = await asyncio.open_unix_connection(path, limit=MAX_LINE_BYTES)
    except OSError as error:
        raise DeviceError(
            f"the port is in use by the agent's driver {driver}, and the agent cannot be reached ({error.strerror});"
            " run this as root or as the agent's user, or stop the agent"
        ) from error
    try:
        yield SharedLink(driver, reader, writer)
    finally:
        await hang_up(writer)


# Messages in a line


def _text_of(message: Message) -> str:
    return frame_of(message, session=0).to_bytes().hex()


def _message_of(text: str) -> Message:
    """Raises: ValueError, WireError."""
    [frame] = LinkDecoder().feed(bytes.fromhex(text))
    if not isinstance(frame, Frame):
        raise ValueError(frame.problem)  # noqa: TRY004 - it is the text that is wrong
    return message_in(frame)
