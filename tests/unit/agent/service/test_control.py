import asyncio
import json
from pathlib import Path

import pytest

from agent.config.configuration import SYSTEM_CONFIG
from agent.errors import ConfigError, LinkDown
from agent.service.control import control_socket, request_reload, serve_requests, usual_sockets
from agent.service.local_socket import MAX_CLIENTS, MAX_LINE_BYTES

CONFIGURATION = Path("/somewhere/headgate.toml")


class Served:
    """An agent that answers each reload with the next of `answers`, and ends in the middle of the one after."""

    def __init__(self, folder: Path, *answers: str) -> None:
        self.path = folder / "control.sock"
        self._answers = iter(answers)
        self.reloads = 0

    async def reload(self) -> str:
        self.reloads += 1
        answer = next(self._answers, None)
        if answer is None:
            self._task.cancel()
            await asyncio.Event().wait()
        return str(answer)

    async def __aenter__(self) -> "Served":
        self._task = asyncio.create_task(serve_requests(self.path, CONFIGURATION, self.reload))
        while not self.path.exists():  # noqa: ASYNC110 - a file system has no event for it
            await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])


def test_a_reload_is_answered_when_it_is_done_and_a_refusal_names_the_problem(tmp_path: Path) -> None:
    async def run() -> None:
        async with Served(tmp_path, "", "journal: no such setting") as agent:
            await request_reload(agent.path, CONFIGURATION)
            with pytest.raises(ConfigError, match=r"previous one: journal: no such setting"):
                await request_reload(agent.path, CONFIGURATION)

    asyncio.run(run())
    assert not (tmp_path / "control.sock").exists()


def test_an_agent_that_ends_instead_of_answering_is_reported(tmp_path: Path) -> None:
    async def run() -> None:
        async with Served(tmp_path) as agent:
            with pytest.raises(LinkDown, match="no answer"):
                await request_reload(agent.path, CONFIGURATION)

    asyncio.run(run())


def test_an_agent_with_another_configuration_is_not_reloaded(tmp_path: Path) -> None:
    async def run() -> int:
        async with Served(tmp_path, "") as agent:
            with pytest.raises(ConfigError, match=r"runs with /somewhere/headgate\.toml"):
                await request_reload(agent.path, Path("/elsewhere.toml"))
            return agent.reloads

    assert asyncio.run(run()) == 0


@pytest.mark.parametrize(
    "line", [b"", b"\xff\n", b"[]\n", b'{"do": "reload"}\n', b'{"do": 7, "configuration": ""}\n', b"[" * 40_000 + b"\n"]
)
def test_a_request_that_makes_no_sense_is_answered_and_reloads_nothing(tmp_path: Path, line: bytes) -> None:
    async def run() -> tuple[str, int]:
        async with Served(tmp_path) as agent:
            reader, writer = await asyncio.open_unix_connection(agent.path)
            writer.write(line)
            writer.write_eof()
            answer = json.loads(await reader.readline())["problem"]
            writer.close()
            return answer, agent.reloads

    answer, reloads = asyncio.run(run())
    assert answer.startswith("the agent ")
    assert reloads == 0


def test_clients_are_bounded_and_an_endless_line_ends_only_its_own_connection(tmp_path: Path) -> None:
    async def run() -> None:
        async with Served(tmp_path, "") as agent:
            idle = [await asyncio.open_unix_connection(agent.path) for _ in range(MAX_CLIENTS)]
            with pytest.raises(LinkDown):
                await request_reload(agent.path, CONFIGURATION)
            reader, writer = idle[0]
            writer.write(b"x" * (2 * MAX_LINE_BYTES + 1))
            assert await reader.read() == b""
            await request_reload(agent.path, CONFIGURATION)
            for _, each in idle:
                each.close()

    asyncio.run(run())


def test_both_sides_use_the_same_path_of_the_socket() -> None:
    data, runtime = Path("/srv/data"), {"RUNTIME_DIRECTORY": "/run/headgate:/run/other"}
    assert control_socket(data, runtime) == Path("/run/headgate/control.sock")
    assert control_socket(data, {}) == data / "control.sock"
    for environment in (runtime, {}):
        assert control_socket(data, environment) in usual_sockets(SYSTEM_CONFIG, data, environment)
    assert usual_sockets(SYSTEM_CONFIG, None, {}) == [Path("/run/headgate/control.sock")]
    assert usual_sockets(CONFIGURATION, None, {}) == []
