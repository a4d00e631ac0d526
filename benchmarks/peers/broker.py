"""The mosquitto brokers at both ends: their queues are unlimited, and their sessions survive a restart."""

import getpass
import socket
import subprocess
import time
from pathlib import Path

START_TIMEOUT_S = 20
CONFIGURATION = """\
user {user}
listener {port} 127.0.0.1
allow_anonymous true
max_queued_messages 0
max_inflight_messages 1000
persistence true
persistence_location {folder}/
autosave_interval 0
"""


class Broker:
    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.port = free_port()
        self._configuration = folder / "mosquitto.conf"
        self._configuration.write_text(CONFIGURATION.format(user=getpass.getuser(), port=self.port, folder=folder))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when it listens."""
        command = ["mosquitto", "-c", str(self._configuration)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until_s = time.monotonic() + START_TIMEOUT_S
        while not is_listening(self.port):
            assert time.monotonic() < until_s, "mosquitto does not listen"
            time.sleep(0.005)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None


def is_listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
