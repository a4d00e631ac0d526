"""A real mosquitto on a free port of the loopback."""

import socket
import subprocess
import time
from pathlib import Path
from typing import Self

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from testbed.processes import free_port
from tests.support.patience import PATIENCE_S
from tests.support.processes import ended


class Broker:
    """Keeps its sessions over `stop` and `start`, as a broker with persistence does."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.tls_port = 0
        self._config = folder / "mosquitto.conf"
        self._config.write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\npersistence true\n"
            f"persistence_location {folder}/\nuser root\nlog_type none\nmax_queued_messages 100000\n"
        )
        self._process: subprocess.Popen[bytes] | None = None

    def add_tls_listener(self, certificate: Path, key: Path) -> None:
        self.tls_port = free_port()
        lines = f"listener {self.tls_port} 127.0.0.1\ncertfile {certificate}\nkeyfile {key}\n"
        self._config.write_text(self._config.read_text() + lines)

    def start(self) -> None:
        self._process = subprocess.Popen(["mosquitto", "-c", str(self._config)], stderr=subprocess.DEVNULL)
        try:
            wait_for_port(self.port)
        except TimeoutError:
            self.stop()
            raise

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with ended(process):
                process.terminate()
                process.wait(PATIENCE_S)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def publish(self, *messages: tuple[str, bytes], qos: int = 1, retain: bool = False, timeout_s: float = 10) -> None:
        client = paho.Client(CallbackAPIVersion.VERSION2)
        client.connect("127.0.0.1", self.port)
        client.loop_start()
        for sent in [client.publish(topic, payload, qos=qos, retain=retain) for topic, payload in messages]:
            sent.wait_for_publish(timeout_s)
        client.disconnect()
        client.loop_stop()


def wait_for_port(port: int) -> None:
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise TimeoutError(f"nothing listens on {port}")
