"""`headgate` commands run as processes, as an operator starts them, and what starting and stopping them needs.

A blocking start or stop runs in a thread that is waited for (`to_its_end`); Ctrl-C and SIGTERM stop everything in order
(`run_until_told`).
"""

import asyncio
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from testbed.errors import BenchError

HEADGATE: Final = (sys.executable, "-m", "agent")
PATIENCE_S: Final = 60.0  # for a process to say what it should, or to end when told
SHOWN_LINES: Final = 20
LISTENING_PORTS: Final = range(20_000, 32_000)  # below those of clients (`net.ipv4.ip_local_port_range`)
PORTS_TO_TRY: Final = 100
T = TypeVar("T")


class HeadgateProcess:
    """One command that goes on until it is told to stop. What it says is kept in `lines`, and in a file if named.

    It has a process group of its own: a Ctrl-C at the terminal is for whoever started it, who then ends it in order.
    """

    def __init__(self, *arguments: str, log: Path | None = None, environment: Mapping[str, str] | None = None) -> None:
        self.lines: list[str] = []
        self._arguments = arguments
        self._log = log
        self._heard = threading.Condition()
        self._process = subprocess.Popen(
            [*HEADGATE, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            env={**os.environ, **(environment or {}), "PYTHONUNBUFFERED": "1"},
            process_group=0,
        )
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()

    def wait_for(self, pattern: str) -> str:
        """The first group of the pattern, in the first line that has it, as soon as it is said. Raises: BenchError."""

        def found() -> re.Match[str] | None:
            return next(filter(None, (re.search(pattern, line) for line in self.lines)), None)

        with self._heard:
            self._heard.wait_for(lambda: found() or not self._listening.is_alive(), PATIENCE_S)
        if (match := found()) is None:
            raise BenchError(f"{' '.join(self._arguments)}: did not print {pattern!r}: {self.lines[-SHOWN_LINES:]}")
        return match[1]

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill with SIGKILL, as the kernel does when memory runs out."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> int:
        """Stop with SIGTERM, as systemd does. Returns the exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Its own end, in good time; killed if it does not come. The exit code."""
        try:
            return self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        if self.is_running:
            self.kill()
        self._listening.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._keep(line)
        with self._heard:
            self._heard.notify_all()

    def _keep(self, line: str) -> None:
        if self._log is not None:
            with self._log.open("a", encoding="utf-8") as file:
                file.write(line)
        with self._heard:
            self.lines.append(line.rstrip("\n"))
            self._heard.notify_all()


class RestartableProcess:
    """One part of a bench: the same command again and again, in one log. For any thread; `close` has the last word."""

    def __init__(self, *arguments: str, says: str, log: Path, environment: Mapping[str, str] | None = None) -> None:
        """`says` is what it says when it is ready, with one group."""
        self._arguments = arguments
        self._says = says
        self._log = log
        self._environment = environment
        self._process: HeadgateProcess | None = None
        self._is_closed = False

    def start(self) -> None:
        """Returns when it is ready. Raises: BenchError."""
        self._process = HeadgateProcess(*self._arguments, log=self._log, environment=self._environment)
        if self._is_closed:
            self._end(HeadgateProcess.kill)  # whoever closed it did not see this one
        else:
            self._process.wait_for(self._says)

    def stop(self) -> None:
        self._end(HeadgateProcess.stop)

    def kill(self) -> None:
        self._end(HeadgateProcess.kill)

    def stand_still(self) -> None:
        if self._process is not None:
            self._process.signal(signal.SIGSTOP)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.is_running

    def close(self) -> None:
        self._is_closed = True
        self.kill()

    def _end(self, end: Callable[[HeadgateProcess], object]) -> None:
        process, self._process = self._process, None
        if process is not None:
            if process.is_running:
                end(process)
            process.close()


@contextmanager
def running(*arguments: str) -> Iterator[HeadgateProcess]:
    process = HeadgateProcess(*arguments)
    try:
        yield process
    finally:
        process.close()


def node_arguments(data: Path, *more: str) -> list[str]:
    return ["node", "run", "--listen", "127.0.0.1:0", "--data", str(data), *more]


async def to_its_end(action: Callable[[], T]) -> T:
    """Do it in a thread. A caller who is cancelled meanwhile is cancelled when it is done, and not before.

    Otherwise a process could start after everything was closed, and stay.
    """
    work = asyncio.ensure_future(asyncio.to_thread(action))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise


def run_until_told(work: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, which cancels the work on Ctrl-C; here on SIGTERM too. Raises: KeyboardInterrupt for both."""

    async def listen() -> T:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await work

    try:
        return asyncio.run(listen())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def free_port() -> int:
    """A TCP port on which nothing listens, and which the kernel gives to no client meanwhile. Raises: BenchError."""
    for port in random.SystemRandom().sample(LISTENING_PORTS, PORTS_TO_TRY):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise BenchError(f"{PORTS_TO_TRY} ports of this machine are in use")
