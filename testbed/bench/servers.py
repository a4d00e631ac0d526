"""What agents talk to: trackers, nodes, brokers and collectors. Each keeps its port when it is started again.

Starting and ending block; whoever runs an event loop calls them in a thread.
"""

import os
import shutil
from abc import ABC, abstractmethod
from pathlib import Path

from ingest.collector.devices import AllowList, Device
from ingest.collector.keys import create_keys
from testbed.free_port import free_port
from testbed.mosquitto import Broker
from testbed.processes import HeadgateProcess

__all__ = ["BrokerServer", "CollectorServer", "Elsewhere", "NodeServer", "Server", "TrackerServer"]


class Server(ABC):
    host: str
    port: int

    @abstractmethod
    def start(self) -> None:
        """Returns when it listens. Raises: BenchError."""

    @abstractmethod
    def stop(self) -> None:
        """In order."""

    @abstractmethod
    def kill(self) -> None: ...

    def forget(self) -> None:  # noqa: B027 - most keep nothing
        """What it kept, while it does not run."""


class _HeadgateServer(Server):
    """A `headgate` command that listens on a port of this machine."""

    def __init__(self, folder: Path, name: str) -> None:
        self.host, self.port = "127.0.0.1", free_port()
        self._log = folder / f"{name}.log"
        self._process: HeadgateProcess | None = None

    @abstractmethod
    def arguments(self) -> list[str]: ...

    @property
    @abstractmethod
    def says(self) -> str:
        """What it says when it listens."""

    def start(self) -> None:
        self._process = HeadgateProcess(*self.arguments(), log=self._log)
        self._process.wait_for(self.says)

    def stop(self) -> None:
        if self._process is not None and self._process.is_running:
            self._process.stop()
        self._let_go()

    def kill(self) -> None:
        if self._process is not None and self._process.is_running:
            self._process.kill()
        self._let_go()

    def _let_go(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


class TrackerServer(_HeadgateServer):
    says = r"tracker listens; address=(\S+)"

    def arguments(self) -> list[str]:
        return ["node", "tracker", "--listen", self.address]


class NodeServer(_HeadgateServer):
    says = r"node listens; address=(\S+)"

    def __init__(self, folder: Path, name: str, tracker: TrackerServer | None) -> None:
        super().__init__(folder, name)
        self.data = folder / name
        self._join = [] if tracker is None else ["--join", f"ws://{tracker.address}"]

    def arguments(self) -> list[str]:
        return ["node", "run", "--listen", self.address, "--data", str(self.data), *self._join]

    def forget(self) -> None:
        shutil.rmtree(self.data, ignore_errors=True)


class CollectorServer(_HeadgateServer):
    says = r"(listening on )"

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder, name)
        self.landing = folder / name / "landing"
        self.state = folder / name / "state"
        self.landing.mkdir(parents=True)
        public = create_keys(self.state / "keys", os.urandom)
        self.key_file = folder / name / "signing.public"
        self.key_file.write_text(public.signing.hex())
        self._devices = AllowList(self.state / "devices")

    def arguments(self) -> list[str]:
        where = ["--listen", self.address, "--landing", str(self.landing), "--state", str(self.state)]
        return ["collector", "run", *where, "--min-free-bytes", "0", "--device-requests-per-s", "1000"]

    def enrol(self, address: bytes) -> None:
        self._devices.enrol(Device(address=address, enrolled_at_ms=0))

    def archives(self) -> list[Path]:
        return sorted(self.landing.glob("*.hg[as]"))


class BrokerServer(Server):
    def __init__(self, folder: Path, name: str) -> None:
        self._broker = Broker(folder / name, "max_queued_messages 0\nmax_inflight_messages 0")
        self.host, self.port = "127.0.0.1", self._broker.port

    def start(self) -> None:
        self._broker.start()

    def stop(self) -> None:
        self._broker.stop()

    def kill(self) -> None:
        self._broker.kill()

    def forget(self) -> None:
        self._broker.forget()


class Elsewhere(Server):
    """Runs already, and is nobody's here to start or stop."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.host, self.port = host, int(port)

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def kill(self) -> None:
        pass
