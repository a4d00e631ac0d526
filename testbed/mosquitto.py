"""A mosquitto broker for tests: `with Broker(folder) as broker:`; it can be stopped, killed and restarted.

A test that uses it is marked with `@pytest.mark.needs("mosquitto", "mosquitto")`.
"""

import getpass
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Final, Self

from testbed.errors import BenchError
from testbed.processes import free_port

START_TIMEOUT_S: Final = 20
DATABASE: Final = "mosquitto.db"

CONFIGURATION: Final = """\
user {user}
listener {port} 127.0.0.1
allow_anonymous true
persistence true
persistence_location {folder}/
autosave_interval 1
autosave_on_changes true
log_dest file {folder}/mosquitto.log
{more}
"""


class Broker:
    """A broker on a free port, whose sessions survive a restart."""

    def __init__(self, folder: Path, more_configuration: str = "") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.url = f"mqtt://127.0.0.1:{self.port}"
        self._folder = folder
        self._configuration = folder / "mosquitto.conf"
        text = CONFIGURATION.format(user=getpass.getuser(), port=self.port, folder=folder, more=more_configuration)
        self._configuration.write_text(text, encoding="utf-8")
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Returns when it listens. Raises: BenchError."""
        try:
            self._process = subprocess.Popen(
                ["mosquitto", "-c", str(self._configuration)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                process_group=0,
            )
        except FileNotFoundError:
            raise BenchError("mosquitto is not installed; apt-get install mosquitto") from None
        try:
            self._wait_until_it_listens(self._process)
        except BenchError:
            self.kill()
            raise

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.wait()

    def close(self) -> None:
        self.kill()

    def clear(self) -> None:
        """Delete its stored sessions and messages; only while it is stopped."""
        (self._folder / DATABASE).unlink(missing_ok=True)

    def _wait_until_it_listens(self, process: "subprocess.Popen[bytes]") -> None:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while True:
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise BenchError(f"mosquitto does not listen; see {self._folder}")
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.02)  # there is no event for the start of another program
            else:
                return
