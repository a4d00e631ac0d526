"""The whole picture on one machine, in a minute or two: `make demo`.

A node, a collector and two agents with simulated sensors run as real processes. One agent is killed with kill -9, the
node is away for a while; then everything is shipped, ingested by Spark, and the ledger must say that nothing was lost
and nothing counted twice. Any other outcome is exit code 1. `--keep` leaves the folder with everything in it, and the
report as a page.
"""

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

DEVICES: Final = ("north", "south")
SCENE_S: Final = 5.0
PATIENCE_S: Final = 120.0
HEADGATE: Final = (sys.executable, "-m", "agent")

SUMMED: Final = ("produced", "archived", "ingested", "counted", "quarantined", "lost_explained", "lost_unexplained")

AGENT_CONFIG: Final = """\
[device]
name = "{name}"
data_directory = "{folder}/{name}"

[drivers.greenhouse]
driver = "simulated"
rate_hz = 25.0
signals = [
    {{ kind = "diurnal", quantity = "temperature", unit = "Cel" }},
    {{ kind = "walk", quantity = "humidity", unit = "%" }},
]

[publishers.node]
kind = "websocket"
url = "{node}"

[archive]
every_s = 2.0

[ship]
url = "{collector}"
collector_key = "{folder}/collector.key"
check_every_s = 1.0

[status]
every_s = 1.0
"""


class Demo:
    """Real processes below one folder. Each keeps a log there and is ended at the end, whatever happens."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._began_s = time.monotonic()
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began_s:5.1f} s  {text}", flush=True)

    def start(self, name: str, *arguments: str) -> None:
        with self._log(name).open("ab") as log:
            self._running[name] = subprocess.Popen([*HEADGATE, *arguments], stdout=log, stderr=log)

    def end(self, name: str, how: signal.Signals = signal.SIGTERM) -> None:
        process = self._running.pop(name)
        process.send_signal(how)
        process.wait(PATIENCE_S)

    def end_all(self) -> None:
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()

    def wait_for(self, what: str, look: Callable[[], Any]) -> Any:
        """The first answer that is not empty."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not (answer := look()):
            if time.monotonic() > deadline_s:
                raise SystemExit(f"waited {PATIENCE_S:.0f} s for {what}; the logs are in {self.folder}")
            time.sleep(0.2)
        return answer

    def address_of(self, name: str, mark: str) -> str:
        """What a process says in its log behind `mark`."""
        lines = self.wait_for(name, lambda: [line for line in self._log(name).read_text().splitlines() if mark in line])
        return str(lines[-1].partition(mark)[2]).strip()

    def status(self, name: str) -> dict[str, Any]:
        try:
            status: dict[str, Any] = json.loads((self.folder / name / "status.json").read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return status

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"


def headgate(*arguments: str) -> str:
    """Run one command to its end; what it printed."""
    done = subprocess.run([*HEADGATE, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"headgate {' '.join(arguments)} answered {done.returncode}:\n{done.stderr}")
    return done.stdout


def set_up(demo: Demo) -> str:
    """Start the network and the centre, make the devices known, and start them. The node's address."""
    folder = demo.folder
    demo.start("node", "node", "run", "--listen", "127.0.0.1:0", "--data", f"{folder}/node")
    node = demo.address_of("node", "address=").removeprefix("http://")
    state = ("--state", f"{folder}/collector")
    headgate("collector", "keys", "init", *state)
    keys = json.loads(headgate("collector", "keys", "show", "--json", *state))
    (folder / "collector.key").write_text(keys["signing_key"])
    demo.start("collector", "collector", "run", *state, "--listen", "127.0.0.1:0", "--landing", f"{folder}/landing")
    collector = demo.address_of("collector", "listening on ")
    demo.say(f"a node listens on {node}, a collector on {collector}")
    for name in DEVICES:
        config = AGENT_CONFIG.format(name=name, folder=folder, node=f"ws://{node}/api/v1/ws", collector=collector)
        (folder / f"{name}.toml").write_text(config)
        key_file = f"{folder}/{name}/keys/device.keys"
        headgate("keys", "init", "--keys", key_file)
        headgate("keys", "export-public", "--keys", key_file, "--out", f"{folder}/{name}.json")
        headgate("collector", "enrol", *state, f"{folder}/{name}.json")
        start_agent(demo, name)
    return node


def start_agent(demo: Demo, name: str) -> None:
    demo.start(name, "run", "--config", f"{demo.folder}/{name}.toml")


def published(demo: Demo) -> int:
    return sum(demo.status(name).get("links", {}).get("node", {}).get("acknowledged", 0) for name in DEVICES)


def waiting(demo: Demo) -> int:
    """Records that some cursor of some agent has not passed."""
    return sum(sum(demo.status(name).get("journal", {"waiting": {}})["waiting"].values()) for name in DEVICES)


def break_things(demo: Demo, node: str) -> None:
    demo.wait_for("the first messages", lambda: published(demo) > 100)
    demo.say(f"two agents publish signed messages; {published(demo)} acknowledged so far")
    demo.end("south", signal.SIGKILL)
    demo.say("agent south is killed with kill -9")
    time.sleep(SCENE_S)
    start_agent(demo, "south")
    demo.end("node")
    demo.say("agent south is started again; the node is gone")
    time.sleep(SCENE_S)
    demo.say(f"the journals fill: {waiting(demo)} messages wait")
    demo.start("node", "node", "run", "--listen", node, "--data", f"{demo.folder}/node")
    demo.wait_for("the links", lambda: all(demo.status(name)["links"]["node"]["is_up"] for name in DEVICES))
    time.sleep(SCENE_S)
    demo.say(f"the node is back, and the journals drain; {waiting(demo)} messages wait")


def ship_everything(demo: Demo) -> None:
    """End the agents in order; what is still in a journal goes out with a last short run."""
    for name in DEVICES:
        demo.end(name)
    for name in DEVICES:
        headgate("run", "--config", f"{demo.folder}/{name}.toml", "--once", "--seconds", "0")
    archives = list((demo.folder / "landing").glob("*.hga"))
    demo.say(f"{len(archives)} archives are with the collector, each with its receipt")


def settle(demo: Demo, *, write_page: bool) -> bool:
    """Make tables of the archives, and read the ledger."""
    tables = f"{demo.folder}/tables"
    demo.say("Spark verifies every signature and makes the tables …")
    headgate("ingest", "run", "--landing", f"{demo.folder}/landing", "--tables", tables, "--quiet")
    if write_page:
        headgate("ingest", "report", "--tables", tables, "--output", f"{demo.folder}/report.html")
    report = json.loads(headgate("ingest", "report", "--tables", tables, "--json"))
    return tell_ledger(report["ledger"])


def tell_ledger(chains: list[dict[str, Any]]) -> bool:
    """Print the sums; whether both ends agree that nothing was lost and nothing counted twice."""
    sums = {name: sum(int(chain[name]) for chain in chains) for name in SUMMED}
    lost = sums["lost_explained"] + sums["lost_unexplained"]
    doubled = sums["counted"] - sums["ingested"]
    is_settled = (lost, doubled, sums["quarantined"]) == (0, 0, 0) and all(chain["balanced"] for chain in chains)
    print(f"{len(chains)} chains: {sums['produced']} messages produced, {sums['archived']} archived, ", end="")
    print(f"{sums['ingested']} ingested, {sums['quarantined']} in quarantine")
    print(f"lost {lost}, duplicated {doubled}")
    return is_settled and sums["produced"] == sums["ingested"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the folder with logs, tables and report")
    arguments = parser.parse_args()
    demo = Demo(Path(tempfile.mkdtemp(prefix="headgate-demo-")))
    try:
        node = set_up(demo)
        break_things(demo, node)
        ship_everything(demo)
        is_settled = settle(demo, write_page=arguments.keep)
    finally:
        demo.end_all()
        if arguments.keep:
            print(f"everything is in {demo.folder}; the report is report.html")
        else:
            shutil.rmtree(demo.folder, ignore_errors=True)
    return 0 if is_settled else 1


if __name__ == "__main__":
    sys.exit(main())
