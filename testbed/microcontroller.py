"""Microcontrollers without a board: the example firmware in QEMU, or built for this machine, behind a cable.

agent ── port ── Cable ── unix socket ── qemu-system-arm -M mps2-an385      real Cortex-M3 code, paused and reset by QMP
                      └── socket pair ── firmware-host                     the same firmware as a program
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Final, Self

from testbed.cable import Cable

LIBRARY: Final = Path(__file__).parents[1] / "firmware_bridge" / "c"
START_S: Final = 20.0
RETRY_S: Final = 0.02
QEMU: Final = "qemu-system-arm"


def build_firmware(target: str, folder: Path, **variables: str) -> Path:
    """Build the firmware for `host` or a board. Returns the program or image."""
    settings = [f"{name}={value}" for name, value in {"BUILD": str(folder), **variables}.items()]
    done = subprocess.run(
        ["make", "--silent", "-C", str(LIBRARY), target, *settings], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise OSError(f"the firmware for {target} does not build: {done.stderr[-2000:]}")
    return folder / ("firmware-host" if target == "host" else f"{target}.elf")


class Board(ABC):
    """A running device, with a socket for its serial line."""

    device_id: str
    uart: socket.socket  # closed by the cable that is plugged into it

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @abstractmethod
    def reset(self, cable: Cable) -> None:
        """Restart the firmware, with empty memory."""

    @abstractmethod
    def pause(self) -> None:
        """Stop the processor: it neither receives nor sends, and its memory stays."""

    @abstractmethod
    def resume(self) -> None: ...

    @abstractmethod
    def kill(self) -> None: ...


class HostBoard(Board):
    """The firmware compiled for this machine, as a process."""

    def __init__(self, program: Path, *, device_id: str = "host-example", options: tuple[str, ...] = ()) -> None:
        self.device_id = device_id
        self._command = [str(program), "--id", device_id, *options]
        self._start()

    def _start(self) -> None:
        self.uart, theirs = socket.socketpair()
        with theirs:
            command = [*self._command, "--fd", str(theirs.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()])

    def reset(self, cable: Cable) -> None:
        self.kill()
        self._start()
        cable.replace_device(self.uart)

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        _end(self._process)


class QemuBoard(Board):
    """The firmware on an emulated Cortex-M3 board."""

    device_id = "mps2-an385"

    def __init__(self, firmware: Path, folder: Path, *options: str) -> None:
        """The sockets of the line and of QEMU's monitor are made in `folder`."""
        line, monitor = folder / "uart", folder / "qmp"
        for path in (line, monitor):
            path.unlink(missing_ok=True)
        machine = [QEMU, "-M", "mps2-an385", "-display", "none", "-monitor", "none", "-kernel", str(firmware), *options]
        sockets = ["-serial", f"unix:{line},server=on,wait=on", "-qmp", f"unix:{monitor},server=on,wait=off"]
        environment = {**os.environ, "QEMU_AUDIO_DRV": "none"}
        self._process = subprocess.Popen([*machine, *sockets], env=environment)
        with contextlib.ExitStack() as on_error:
            on_error.callback(_end, self._process)
            self.uart = _connect(line, self._process)  # the firmware starts when the line is connected
            on_error.callback(self.uart.close)
            self._monitor = _Monitor(_connect(monitor, self._process))
            on_error.pop_all()

    def reset(self, cable: Cable) -> None:  # noqa: ARG002 - the line stays
        self._monitor.execute("system_reset")

    def pause(self) -> None:
        self._monitor.execute("stop")

    def resume(self) -> None:
        self._monitor.execute("cont")

    def kill(self) -> None:
        self._monitor.close()
        _end(self._process)


class _Monitor:
    """QEMU's machine protocol: one JSON object a line."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lines = connection.makefile("r", encoding="utf-8")
        self._lines.readline()  # its greeting
        self.execute("qmp_capabilities")

    def execute(self, command: str) -> None:
        self._connection.sendall(json.dumps({"execute": command}).encode() + b"\n")
        answer: dict[str, Any] = {}
        while "return" not in answer:  # events may come first
            answer = json.loads(self._lines.readline())
            if "error" in answer:
                raise OSError(f"QEMU refuses {command}: {answer['error']}")

    def close(self) -> None:
        self._lines.close()
        self._connection.close()


def _connect(path: Path, process: "subprocess.Popen[bytes]") -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    deadline_s = time.monotonic() + START_S
    while time.monotonic() < deadline_s and process.poll() is None:
        with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
            connection.connect(str(path))
            return connection
        time.sleep(RETRY_S)
    connection.close()
    _end(process)
    raise OSError(f"{QEMU} did not open {path} within {START_S} s; its exit code is {process.returncode}")


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()
