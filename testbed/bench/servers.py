"""The servers of a bench: trackers, nodes, brokers and collectors. Each uses the same port after a restart.

Starting and stopping block, so an event loop calls them in a thread.
"""

import os
import shutil
from pathlib import Path
from typing import Protocol

from ingest.collector.devices import AllowList, Device
from ingest.collector.keys import create_keys
from ingest.collector.log_state import LogState
from ingest.collector.logs import read_state
from protocol.binding import Binding
from protocol.devicelog.checkpoint import Checkpoint
from protocol.shipping import CHECKPOINT_SUFFIX
from testbed.mosquitto import Broker
from testbed.processes import RestartableProcess, free_port


class _Process(Protocol):
    def start(self) -> None:
        """Returns when it listens. Raises: BenchError."""

    def stop(self) -> None:
        """An orderly stop."""

    def kill(self) -> None: ...
    def close(self) -> None: ...


class Server:
    """A process that listens on `host` and `port`."""

    host = "127.0.0.1"
    port: int
    process: _Process

    def clear(self) -> None:
        """Delete its stored data; only while it is stopped."""


class _HeadgateServer(Server):
    """A `headgate` command that listens on a free port of this machine."""

    def __init__(self) -> None:
        self.port = free_port()
        self.address = f"{self.host}:{self.port}"


class TrackerServer(_HeadgateServer):
    def __init__(self, folder: Path, name: str) -> None:
        super().__init__()
        command = ("node", "tracker", "--listen", self.address)
        self.process = RestartableProcess(*command, says=r"tracker listens; address=(\S+)", log=folder / f"{name}.log")


class NodeServer(_HeadgateServer):
    def __init__(
        self, folder: Path, name: str, tracker: TrackerServer | None = None, settings: Path | None = None
    ) -> None:
        """`settings` is a file that may be written until the node starts."""
        super().__init__()
        self.data = folder / name
        join = () if tracker is None else ("--join", f"ws://{tracker.address}")
        more = () if settings is None else ("--config", str(settings))
        command = ("node", "run", "--listen", self.address, "--data", str(self.data), *join, *more)
        self.process = RestartableProcess(*command, says=r"node listens; address=(\S+)", log=folder / f"{name}.log")

    def clear(self) -> None:
        shutil.rmtree(self.data, ignore_errors=True)


class CollectorServer(_HeadgateServer):
    def __init__(self, folder: Path, name: str) -> None:
        super().__init__()
        self.landing = folder / name / "landing"
        self.state = folder / name / "state"
        self.receipts_folder = self.state / "receipts"
        self.landing.mkdir(parents=True)
        public = create_keys(self.state / "keys", os.urandom)
        self.key_file = folder / name / "signing.public"
        self.key_file.write_text(public.signing.hex())
        self._devices = AllowList(self.state / "devices")
        where = ("--listen", self.address, "--landing", str(self.landing), "--state", str(self.state))
        command = ("collector", "run", *where, "--min-free-bytes", "0", "--device-requests-per-s", "1000")
        self.process = RestartableProcess(*command, says=r"(listening on )", log=folder / f"{name}.log")

    def enrol(self, binding: Binding) -> None:
        self._devices.enrol(Device(address=binding.address, archive_key=binding.archive_key, enrolled_at_ms=0))

    def archives(self) -> list[Path]:
        return sorted(self.landing.glob("*.hg[as]"))

    def receipts(self, device: bytes | None = None) -> int:
        """How many receipts it has given, to all devices or to one, since their folder was deleted."""
        return sum(1 for _ in self.receipts_folder.glob(f"{'*' if device is None else device.hex()}/*.receipt"))

    def logs(self) -> list[LogState]:
        return [read_state(path) for path in sorted(self.state.glob("logs/*/*/state"))]

    def checkpoints(self, device: bytes) -> list[Checkpoint]:
        """The newest checkpoint of each log of a device."""
        files = self.landing.glob(f"{device.hex()}-*{CHECKPOINT_SUFFIX}")
        return [Checkpoint.from_bytes(path.read_bytes()) for path in files]


class BrokerServer(Server):
    def __init__(self, folder: Path, name: str) -> None:
        self.process: Broker = Broker(folder / name, "max_queued_messages 0\nmax_inflight_messages 0")
        self.port = self.process.port

    def clear(self) -> None:
        self.process.clear()


class ExternalServer(Server):
    """A server that runs already, and that the bench neither starts nor stops."""

    def __init__(self, address: str) -> None:
        self.host, _, port = address.rpartition(":")
        self.port = int(port)
        self.process = _NotOurs()


class _NotOurs:
    def start(self) -> None:
        """Does nothing."""

    stop = kill = close = start
