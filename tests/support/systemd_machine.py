"""A machine with a real systemd in it: a container over a copy of this machine's own root, gone when the test ends.

The root is an overlay on a tmpfs, in a mount namespace of its own: nothing that happens in there touches the machine
that runs the tests. Commands are run inside by entering its namespaces.
"""

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.processes import ended

AS_ROOT = () if os.geteuid() == 0 else ("sudo", "--non-interactive")
BOOT_TIMEOUT_S = 60.0
PREPARE_TIMEOUT_S = 300.0
COMMAND_TIMEOUT_S = 120.0
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
BOOT = """
set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
root=$1/root
shift
sh -ec "$PREPARE" sh "$root" >&2
exec systemd-nspawn --quiet --register=no --keep-unit --boot --directory="$root" --console=read-only \\
    --private-network --system-call-filter="@clock bpf" "$@" systemd.unit=basic.target
"""  # @clock: else no process in there may read the clock; basic.target: without the services of the machine


class Machine:
    """A booted container. `run` is a command inside, as root."""

    def __init__(self, leader: int) -> None:
        self._enter = (*AS_ROOT, "nsenter", f"--target={leader}", "--all", "--")

    def run(self, *command: str, check: bool = True, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        """A failure that is not expected shows what the command said."""
        done = subprocess.run(
            [*self._enter, "env", "-i", f"PATH={PATH}", "LANG=C.UTF-8", *command],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
        if check:
            assert done.returncode == 0, f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def property(self, unit: str, name: str) -> str:
        return self.run("systemctl", "show", "--property", name, "--value", unit).stdout.strip()

    def log_of(self, unit: str) -> str:
        return self.run("journalctl", "--no-pager", "--output=short", "--unit", unit).stdout

    def write(self, path: str, text: str) -> None:
        self.run("sh", "-c", 'mkdir -p "$(dirname "$1")" && cat > "$1"', "sh", path, stdin=text)

    def read(self, path: str) -> str:
        return self.run("cat", path).stdout

    def wait_until(self, *command: str, what: str, timeout_s: float = 60.0) -> None:
        """Until a command inside answers 0."""
        until_s = time.monotonic() + timeout_s
        while self.run(*command, check=False).returncode != 0:
            assert time.monotonic() < until_s, f"waited in vain until {what}\n{self.log_of('headgate')[-4000:]}"
            time.sleep(0.1)


@contextmanager
def booted_machine(*nspawn_options: str, prepare: str = "") -> Iterator[Machine]:
    """`nspawn_options` may bind files and devices of this machine into it. `prepare` is a script that is run outside,
    with the root of the machine as `$1`, before it boots."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [*AS_ROOT, "unshare", "--mount", "--propagation=private", "sh", "-c", BOOT, "sh", folder, *nspawn_options],
            env={**os.environ, "UNIFIED_CGROUP_HIERARCHY": "1", "PREPARE": prepare},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        with ended(process):
            try:
                yield _wait_for_boot(process, BOOT_TIMEOUT_S + (PREPARE_TIMEOUT_S if prepare else 0))
            finally:
                process.terminate()
                process.communicate(timeout=BOOT_TIMEOUT_S)


def can_boot() -> bool:
    """Whether this machine lets its root mount things, which a container within a container may not."""
    done = subprocess.run([*AS_ROOT, "unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], check=False)
    return done.returncode == 0


def _wait_for_boot(process: "subprocess.Popen[bytes]", timeout_s: float) -> Machine:
    until_s = time.monotonic() + timeout_s
    while time.monotonic() < until_s and process.poll() is None:
        for leader in _descendants(process.pid):
            machine = Machine(leader)
            if machine.run("systemctl", "is-system-running", check=False).stdout.strip() in ("running", "degraded"):
                return machine
        time.sleep(0.1)
    process.terminate()
    said = process.communicate(timeout=BOOT_TIMEOUT_S)[0].decode(errors="replace")
    raise AssertionError(f"the container does not boot: {said[-4000:]}")


def _descendants(pid: int) -> Iterator[int]:
    """The container's first process is one of them; the rest have no systemd that would answer."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in map(int, children):
        yield child
        if AS_ROOT:
            yield from _descendants(child)
