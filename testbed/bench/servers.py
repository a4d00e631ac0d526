"""The servers of a bench: trackers, nodes, brokers and collectors. Each keeps its port over restarts.

Starting and ending block; whoever runs an event loop calls them in a thread.
"""

import os
import shutil
from abc import ABC, abstractmethod
from pathlib import Path

from ingest.collector.devices import AllowList, Device
from ingest.collector.keys import create_keys
from protocol.archive.binding import Binding
from testbed.mosquitto import Broker
from testbed.processes import RestartableProcess, free_port


class Server(ABC):
    host: str
    port: int

    @abstractmethod
    def start(self) -> None:
        """Returns when it listens. Raises: BenchError."""

    @abstractmethod
    def stop(self) -> None:
        """An orderly stop."""

    @abstractmethod
    def kill(self) -> None: ...

    def close(self) -> None:
        """For good."""
        self.kill()

    def forget(self) -> None:  # noqa: B027 - most keep nothing
        """What it kept, while it does not run."""


class _HeadgateServer(Server):
    """A `headgate` command that listens on a port of this machine."""

    def __init__(self) -> None:
        self.host, self.port = "127.0.0.1", free_port()
        self.process: RestartableProcess

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def start(self) -> None:
        self.process.start()

    def stop(self) -> None:
        self.process.stop()

    def kill(self) -> None:
        self.process.kill()

    def close(self) -> None:
        self.process.close()


class TrackerServer(_HeadgateServer):
    def __init__(self, folder: Path, name: str) -> None:
        super().__init__()
        self.process = RestartableProcess(
            *("node", "tracker", "--listen", self.address),
            says=r"tracker listens; address=(\S+)",
            log=folder / f"{name}.log",
        )


class NodeServer(_HeadgateServer):
    def __init__(
        self, folder: Path, name: str, tracker: TrackerServer | None = None, settings: Path | None = None
    ) -> None:
        """`settings` is a file that may be written until the node starts."""
        super().__init__()
        self.data = folder / name
        join = () if tracker is None else ("--join", f"ws://{tracker.address}")
        more = () if settings is None else ("--config", str(settings))
        self.process = RestartableProcess(
            *("node", "run", "--listen", self.address, "--data", str(self.data), *join, *more),
            says=r"node listens; address=(\S+)",
            log=folder / f"{name}.log",
        )

    def forget(self) -> None:
        shutil.rmtree(self.data, ignore_errors=True)


class CollectorServer(_HeadgateServer):
    def __init__(self, folder: Path, name: str) -> None:
        super().__init__()
        self.landing = folder / name / "landing"
        self.state = folder / name / "state"
        self.landing.mkdir(parents=True)
        public = create_keys(self.state / "keys", os.urandom)
        self.key_file = folder / name / "signing.public"
        self.key_file.write_text(public.signing.hex())
        self._devices = AllowList(self.state / "devices")
        where = ("--listen", self.address, "--landing", str(self.landing), "--state", str(self.state))
        self.process = RestartableProcess(
            *("collector", "run", *where, "--min-free-bytes", "0", "--device-requests-per-s", "1000"),
            says=r"(listening on )",
            log=folder / f"{name}.log",
        )

    def enrol(self, binding: Binding) -> None:
        self._devices.enrol(Device(address=binding.address, archive_key=binding.archive_key, enrolled_at_ms=0))

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
