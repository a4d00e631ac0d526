"""The example firmware on an emulated Cortex-M3 board, behind a cable.

agent ── port ── Cable ── unix socket ── qemu-system-arm -M mps2-an385      paused and reset by QMP
"""

import contextlib
import json
import os
import socket
import subprocess
import time
from pathlib import Path
from typing import Any, Final, Self

from testbed.cable import Cable

START_S: Final = 20.0
RETRY_S: Final = 0.02
QEMU: Final = "qemu-system-arm"


class QemuBoard:
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

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
