"""A collector in a process of its own, as an operator starts it, for tests that signal it or kill it."""

import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ingest.collector.devices import AllowList, Device
from ingest.collector.keys import PublicKeys, create_keys
from tests.support.archives import BINDING
from tests.support.patience import PATIENCE_S
from tests.support.processes import ended

PROJECT = Path(__file__).parents[2]
HEADGATE = (sys.executable, "-m", "agent")


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorProcess:
    process: "subprocess.Popen[str]"
    url: str

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.url.partition("://")[2].rpartition(":")
        return host, int(port)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)


def make_state(root: Path) -> PublicKeys:
    """Keys, and the device of the tests enrolled."""
    public = create_keys(root / "state" / "keys", lambda count: bytes(range(count)))
    device = Device(address=BINDING.address, archive_key=BINDING.archive_key, enrolled_at_ms=1)
    AllowList(root / "state" / "devices").enrol(device)
    return public


@contextmanager
def collector_process(
    root: Path,
    *options: str,
    environment: Mapping[str, str] | None = None,
    wrapped_in: Sequence[str] = (),
    traced_by: Sequence[str] = (),
) -> Iterator[CollectorProcess]:
    """Ready for requests; killed at the end if the test did not stop it. `traced_by` replaces `python -m`."""
    process = subprocess.Popen(
        [*wrapped_in, *(traced_by or HEADGATE[:2]), *run_command(root, *options)[2:]],
        stdout=subprocess.PIPE,
        text=True,
        cwd=PROJECT,
        env=None if environment is None else dict(environment),
    )
    with ended(process):
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening on "), "the collector did not start; its messages are on stderr"
        yield CollectorProcess(process=process, url=line.removeprefix("listening on ").strip())
        if process.stdout is not None:
            process.stdout.close()


def run_command(root: Path, *options: str) -> list[str]:
    where = ["--listen", "127.0.0.1:0", "--landing", str(root / "landing"), "--state", str(root / "state")]
    return [*HEADGATE, "collector", "run", *where, "--min-free-bytes", "0", *options]
