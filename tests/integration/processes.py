"""Headgate's servers as processes of their own, on free ports of this machine."""

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

READY_TIMEOUT_S = 30


class ServerProcess:
    """A `headgate node …` process. What it says is kept in `lines`."""

    def __init__(self, *arguments: str) -> None:
        self.lines: list[str] = []
        self._heard = threading.Condition()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "agent", "node", *arguments], stderr=subprocess.PIPE, text=True, encoding="utf-8"
        )
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()

    def wait_for(self, pattern: str) -> str:
        """The first group of the pattern, in the first line that has it, as soon as it is said."""

        def found() -> re.Match[str] | None:
            return next(filter(None, (re.search(pattern, line) for line in self.lines)), None)

        with self._heard:
            self._heard.wait_for(lambda: found() or not self._listening.is_alive(), READY_TIMEOUT_S)
        match = found()
        assert match is not None, f"never said {pattern!r}: {self.lines}"
        return match[1]

    def kill(self) -> None:
        """As by a power cut."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> int:
        """As by systemd. The exit code."""
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(READY_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        if self.is_running:
            self.kill()
        self._listening.join()
        if self._process.stderr is not None:
            self._process.stderr.close()

    def _listen(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            with self._heard:
                self.lines.append(line.rstrip("\n"))
                self._heard.notify_all()
        with self._heard:
            self._heard.notify_all()


@contextmanager
def running(*arguments: str) -> Iterator[ServerProcess]:
    process = ServerProcess(*arguments)
    try:
        yield process
    finally:
        process.close()


def node_arguments(data: Path, *more: str) -> list[str]:
    return ["run", "--listen", "127.0.0.1:0", "--data", str(data), *more]
