"""A real MQTT broker for tests: `with mosquitto(folder) as broker:`; it may be stopped and started again in between.

A test that uses it says `@pytest.mark.needs("mosquitto", "mosquitto")`.
"""

import getpass
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_TIMEOUT_S = 20

CONFIGURATION = """\
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
    """One broker on a port of its own, which keeps sessions over a restart."""

    def __init__(self, folder: Path, more_configuration: str = "") -> None:
        self.port = _free_port()
        self.url = f"mqtt://127.0.0.1:{self.port}"
        self._configuration = folder / "mosquitto.conf"
        text = CONFIGURATION.format(user=getpass.getuser(), port=self.port, folder=folder, more=more_configuration)
        self._configuration.write_text(text, encoding="utf-8")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            ["mosquitto", "-c", str(self._configuration)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._wait_until_it_listens()

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def _wait_until_it_listens(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            assert self._process is not None
            assert self._process.poll() is None, f"mosquitto ended; see {self._configuration.parent}"
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                assert time.monotonic() < deadline, "mosquitto does not listen"
                time.sleep(0.02)  # nothing tells when another program begins to listen
            else:
                return


@contextmanager
def mosquitto(folder: Path, more_configuration: str = "") -> Iterator[Broker]:
    folder.mkdir(parents=True, exist_ok=True)
    broker = Broker(folder, more_configuration)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
