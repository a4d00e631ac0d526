"""A microcontroller without a board: the example firmware, built for this machine, behind a cable.

agent ── port ── Cable ── socket pair ── firmware-host
"""

import signal
import socket
import subprocess
from pathlib import Path
from typing import Final, Self

from testbed.cable import Cable

LIBRARY: Final = Path(__file__).parents[1] / "firmware_bridge" / "c"


def build_firmware(target: str, folder: Path, **variables: str) -> Path:
    """Build the firmware for `host` or a board. Returns the program or image."""
    settings = [f"{name}={value}" for name, value in {"BUILD": str(folder), **variables}.items()]
    done = subprocess.run(
        ["make", "--silent", "-C", str(LIBRARY), target, *settings], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise OSError(f"the firmware for {target} does not build: {done.stderr[-2000:]}")
    return folder / ("firmware-host" if target == "host" else f"{target}.elf")


class HostBoard:
    """The firmware compiled for this machine, as a process."""

    def __init__(self, program: Path, *, device_id: str = "host-example", options: tuple[str, ...] = ()) -> None:
        self.device_id = device_id
        self._command = [str(program), "--id", device_id, *options]
        self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _start(self) -> None:
        self.uart, theirs = socket.socketpair()  # closed by the cable that is plugged into it
        with theirs:
            command = [*self._command, "--fd", str(theirs.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()])

    def reset(self, cable: Cable) -> None:
        """Restart the firmware, with empty memory."""
        self.kill()
        self._start()
        cable.replace_device(self.uart)

    def pause(self) -> None:
        """Stop the processor: it neither receives nor sends, and its memory stays."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
