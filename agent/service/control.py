"""The control socket: lets commands make the running agent load its configuration again.

One line of JSON each way: `{"do": "reload", "configuration": "/etc/headgate/headgate.toml"}` is answered with
`{"problem": ""}` once the new configuration is in use, or with why it was refused and the previous one stays.

Under systemd the socket is in $RUNTIME_DIRECTORY, where it is found although the configuration cannot be read; without
it, in the data directory.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

from agent.config.configuration import SYSTEM_CONFIG
from agent.errors import ConfigError, LinkDown, error_text
from agent.service.local_socket import MAX_LINE_BYTES, hang_up, serve_locally

SOCKET_NAME: Final = "control.sock"
RUNTIME_VARIABLE: Final = "RUNTIME_DIRECTORY"
SERVICE_RUNTIME: Final = Path("/run/headgate")  # RuntimeDirectory= of headgate.service
MAX_PROBLEM_CHARACTERS: Final = 16 * 1024
REQUEST_TIMEOUT_S: Final = 10.0
RELOAD_TIMEOUT_S: Final = 170.0  # a pipeline stops within 18 s; the unit gives a journal 180 s to open

log = logging.getLogger(__name__)


def control_socket(data_directory: Path, environment: Mapping[str, str]) -> Path:
    """Where an agent with this environment listens."""
    runtime = environment.get(RUNTIME_VARIABLE, "").split(":")[0]
    return (Path(runtime) if runtime else data_directory) / SOCKET_NAME


def usual_sockets(configuration: Path, data_directory: Path | None, environment: Mapping[str, str]) -> list[Path]:
    """Where the agent of a configuration may listen, as a command sees it. No data directory: it is not known."""
    folders = [Path(each) for each in environment.get(RUNTIME_VARIABLE, "").split(":") if each]
    if configuration == SYSTEM_CONFIG:
        folders.append(SERVICE_RUNTIME)
    if data_directory is not None:
        folders.append(data_directory)
    return [folder / SOCKET_NAME for folder in dict.fromkeys(folders)]


# The agent's side


async def serve_requests(path: Path, configuration: Path, reload: Callable[[], Awaitable[str]]) -> None:
    """Until cancelled. `reload` gives the problem, or "" when the new configuration is in use."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            line = await reader.readline()
        problem = _problem_with(line, configuration) or await reload()
        writer.write(json.dumps({"problem": problem[:MAX_PROBLEM_CHARACTERS]}).encode() + b"\n")
        await writer.drain()

    try:
        await serve_locally(path, converse, name="control")
    except OSError as error:
        log.warning("'headgate reload' is not available, use SIGHUP; socket=%s problem=%s", path, error)


def _problem_with(line: bytes, configuration: Path) -> str:
    try:
        request: dict[str, Any] = json.loads(line)
        asked = (request["do"], request["configuration"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return "the agent does not understand the request; agent and command may have different versions"
    if asked[0] != "reload":
        return f"the agent does not know the request {asked[0]!r:.40}"
    own = str(configuration.absolute())
    return "" if asked[1] == own else f"this agent runs with {own}, not with {asked[1]!r:.200}"


# The command's side


async def request_reload(path: Path, configuration: Path) -> None:
    """Returns when the new configuration is in use.

    Raises: ConfigError if it was refused, LinkDown if the agent ended or did not answer, OSError if none listens.
    """
    reader, writer = await asyncio.open_unix_connection(path, limit=MAX_LINE_BYTES)
    try:
        request = {"do": "reload", "configuration": str(configuration)}
        async with asyncio.timeout(RELOAD_TIMEOUT_S):
            writer.write(json.dumps(request).encode() + b"\n")
            await writer.drain()
            answer = await reader.readline()
    except (OSError, ValueError) as error:  # also where it takes too long
        raise LinkDown(f"the agent did not answer ({error_text(error)}); journalctl -u headgate shows why") from error
    finally:
        await hang_up(writer)
    if not answer:
        raise LinkDown("no answer: the agent stopped; journalctl -u headgate shows why")
    problem = str(json.loads(answer)["problem"])
    if problem:
        raise ConfigError(f"the agent rejected the new configuration and keeps the previous one: {problem}")
