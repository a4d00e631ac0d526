import asyncio
import socket
import threading
from pathlib import Path

import pytest

from testbed import processes
from testbed.errors import BenchError
from testbed.processes import free_port, run_in_thread
from tests.support.patience import PATIENCE_S


def test_a_cancelled_caller_waits_until_the_work_is_done() -> None:
    begun, may_end = threading.Event(), threading.Event()
    done: list[str] = []

    def work() -> None:
        begun.set()
        may_end.wait(PATIENCE_S)
        done.append("work")

    async def run() -> None:
        task = asyncio.create_task(run_in_thread(work))
        await asyncio.to_thread(begun.wait, 20)
        task.cancel()
        asyncio.get_running_loop().call_soon(may_end.set)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert done == ["work"]

    asyncio.run(run())


def test_what_the_work_gives_or_raises_is_passed_on() -> None:
    assert asyncio.run(run_in_thread(lambda: 7)) == 7
    with pytest.raises(ZeroDivisionError):
        asyncio.run(run_in_thread(lambda: 1 // 0))


def test_a_free_port_is_none_that_a_client_is_given_before_the_server_starts() -> None:
    first_of_clients = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(free_port() < first_of_clients for _ in range(20))


def test_a_port_in_use_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", free_port())) as taken:
        monkeypatch.setattr(processes, "LISTENING_PORTS", [taken.getsockname()[1]])
        monkeypatch.setattr(processes, "PORTS_TO_TRY", 1)
        with pytest.raises(BenchError, match="ports of this machine are in use"):
            free_port()
