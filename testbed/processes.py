"""`headgate` commands as processes, started as an operator starts them, and helpers to start and stop them.

A blocking start or stop runs in a thread (`run_in_thread`). Ctrl-C and SIGTERM stop everything in order
(`run_until_signal`).
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
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from testbed.errors import BenchError

HEADGATE: Final = (sys.executable, "-m", "agent")
PATIENCE_S: Final = 180.0  # for a process to print an expected line, or to end after a signal
SHOWN_LINES: Final = 20
LISTENING_PORTS: Final = range(20_000, 32_000)  # below those of clients (`net.ipv4.ip_local_port_range`)
PORTS_TO_TRY: Final = 100
T = TypeVar("T")


class HeadgateProcess:
    """A command that runs until it is stopped. Its output is in `lines`, and in the file `log`.

    It has its own process group, so Ctrl-C at the terminal does not reach it: the parent stops it in order.
    """

    def __init__(self, *arguments: str, log: Path | None = None, environment: Mapping[str, str] | None = None) -> None:
        self.lines: list[str] = []
        self._arguments = arguments
        self._log = log
        self._changed = threading.Condition()
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
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, pattern: str) -> str:
        """Wait for a line that matches. Returns the first group of the pattern. Raises: BenchError."""

        def found() -> re.Match[str] | None:
            return next(filter(None, (re.search(pattern, line) for line in self.lines)), None)

        with self._changed:
            self._changed.wait_for(lambda: found() or not self._reader.is_alive(), PATIENCE_S)
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
        """Wait for its end. Returns the exit code. Raises: TimeoutExpired, after killing it."""
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
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._store(line)
        with self._changed:
            self._changed.notify_all()

    def _store(self, line: str) -> None:
        if self._log is not None:
            with self._log.open("a", encoding="utf-8") as file:
                file.write(line)
        with self._changed:
            self.lines.append(line.rstrip("\n"))
            self._changed.notify_all()


class RestartableProcess:
    """A command that can be stopped and started again, with one log, by any thread. After `close` it stays stopped."""

    def __init__(self, *arguments: str, says: str, log: Path, environment: Mapping[str, str] | None = None) -> None:
        """`says` is a pattern with one group, of the line that it prints when it is ready."""
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
            self._end(HeadgateProcess.kill)  # `close` came before this process existed
        else:
            self._process.wait_for(self._says)

    def stop(self) -> None:
        self._end(HeadgateProcess.stop)

    def kill(self) -> None:
        self._end(HeadgateProcess.kill)

    def pause(self) -> None:
        if self._process is not None:
            self._process.signal(signal.SIGSTOP)

    def close(self) -> None:
        self._is_closed = True
        self.kill()

    def _end(self, end: Callable[[HeadgateProcess], object]) -> None:
        process, self._process = self._process, None
        if process is not None:
            if process.is_running:
                end(process)
            process.close()


async def run_in_thread(action: Callable[[], T]) -> T:
    """Run a blocking action in a thread and wait for its end, even if the caller is cancelled meanwhile.

    Otherwise a process could start after everything was closed.
    """
    work = asyncio.ensure_future(asyncio.to_thread(action))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise


async def run_all(actions: Iterable[Callable[[], None]]) -> None:
    """Run blocking actions at once, each in a thread. Raises the first error, after all have ended."""
    for outcome in await asyncio.gather(*map(run_in_thread, actions), return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


def run_until_signal(work: Coroutine[Any, Any, T]) -> T:
    """Like `asyncio.run`, but SIGTERM cancels the work, too. Raises: KeyboardInterrupt on Ctrl-C and SIGTERM."""

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
