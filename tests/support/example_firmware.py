"""The example firmware, built and running on this machine or in QEMU, with its line in the hands of a test."""

import contextlib
import json
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.support.c_device import LIBRARY
from tests.support.patience import PATIENCE_S
from tests.support.processes import ended
from tests.support.small_gateway import SmallGateway

COMMIT_EVERY_S = 0.05


def make(build: Path, target: str, **variables: str) -> str:
    """What `make` printed. Variables are those of the Makefile."""
    words = [f"{name}={value}" for name, value in variables.items()]
    command = ["make", "--no-print-directory", "-C", str(LIBRARY), f"BUILD={build}", *words, target]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Line:
    """One end of a device's line, with a gateway at it."""

    def __init__(self, end: socket.socket, gateway: SmallGateway) -> None:
        self.gateway = gateway
        self._end = end
        self._end.settimeout(0.02)
        self._committed_at_s = 0.0

    def run_until(self, is_done: Callable[[SmallGateway], bool]) -> None:
        """Let the two talk. Fails after a minute, which no machine should need."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not is_done(self.gateway):
            assert time.monotonic() < deadline_s, (self.gateway.hello, self.gateway.messages, self.gateway.journal)
            self._step()

    def send(self, data: bytes) -> None:
        self._end.sendall(data)

    def _step(self) -> None:
        now_ms = int(time.monotonic() * 1000)
        if now_ms / 1000 - self._committed_at_s >= COMMIT_EVERY_S:
            self._committed_at_s = now_ms / 1000
            self.gateway.commit()
        self.send(self.gateway.tick(now_ms))
        with contextlib.suppress(TimeoutError):
            data = self._end.recv(4096)
            assert data, "the device has hung up"
            self.send(self.gateway.hear(data, now_ms))


@contextlib.contextmanager
def host_firmware(program: Path, gateway: SmallGateway, *options: str) -> Iterator[Line]:
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            command = [str(program), "--fd", str(theirs.fileno()), *options]
            process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE, text=True)
        with ended(process):
            yield Line(ours, gateway)
            ours.close()  # it ends by itself when the line is gone
            _, problems = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, problems) == (0, "")


class Qemu:
    """A board in QEMU: its line, and the buttons of a bench."""

    def __init__(self, line: Line, monitor: socket.socket) -> None:
        self.line = line
        self._monitor = monitor.makefile("rw")
        self._monitor.readline()  # its greeting
        self._execute("qmp_capabilities")

    def reset(self) -> None:
        self._execute("system_reset")

    def _execute(self, command: str) -> None:
        self._monitor.write(json.dumps({"execute": command}) + "\n")
        self._monitor.flush()
        while "return" not in json.loads(self._monitor.readline()):  # events may come first
            continue


@contextlib.contextmanager
def qemu(board: str, image: Path, directory: Path, gateway: SmallGateway) -> Iterator[Qemu]:
    serial, monitor = directory / "serial", directory / "monitor"
    command = ["qemu-system-arm", "-M", board, "-kernel", str(image), "-display", "none", "-monitor", "none"]
    command += ["-serial", f"unix:{serial},server=on,wait=on", "-qmp", f"unix:{monitor},server=on,wait=off"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    with ended(process), connected(serial) as line, connected(monitor) as buttons:
        yield Qemu(Line(line, gateway), buttons)


@contextlib.contextmanager
def connected(path: Path) -> Iterator[socket.socket]:
    """To a server that may still be on its way."""
    deadline_s = time.monotonic() + PATIENCE_S
    with socket.socket(socket.AF_UNIX) as end:
        while True:
            try:
                end.connect(str(path))
                break
            except (FileNotFoundError, ConnectionRefusedError):
                assert time.monotonic() < deadline_s, f"no process listens on {path}"
                time.sleep(0.02)
        yield end
