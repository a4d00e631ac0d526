"""Node-RED: an mqtt-in node wired to an mqtt-out node, payloads passed on as they are, persistent sessions."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.broker import free_port
from benchmarks.peers.forwarder import Forwarder, install, numbers_of
from benchmarks.peers.traffic import Arrival

PACKAGES = ("node-red@5.0.7", "node@22")  # it needs a newer Node.js than many systems have
SETTINGS = """
module.exports = {{
    uiPort: {port}, uiHost: "127.0.0.1", flowFile: "flows.json", credentialSecret: false,
    telemetry: {{ enabled: false, updateNotification: false }},
    logging: {{ console: {{ level: "warn", metrics: false, audit: false }} }},
}};
"""


class NodeRed(Forwarder):
    name = "node-red"

    def set_up(self, source_port: int, sink_port: int) -> None:
        modules = _installed_modules()
        self._node = modules / "node" / "bin" / "node"
        self._program = modules / "node-red" / "red.js"
        (self.folder / "settings.js").write_text(SETTINGS.format(port=free_port()))
        (self.folder / "flows.json").write_text(json.dumps(self._flow(source_port, sink_port)))

    def command(self) -> Sequence[str]:
        settings = str(self.folder / "settings.js")
        return [
            str(self._node),
            str(self._program),
            "--userDir",
            str(self.folder),
            "--settings",
            settings,
            "flows.json",
        ]

    def numbers_in(self, arrival: Arrival) -> list[int]:
        if not arrival.topic.startswith(f"{self.name}/"):
            return []
        return numbers_of([json.loads(arrival.payload)["value"]])

    def _flow(self, source_port: int, sink_port: int) -> list[dict[str, object]]:
        take = {"topic": f"{self.name}/#", "qos": "1", "datatype": "buffer", "broker": "source", "inputs": 0}
        return [
            {"id": "flow", "type": "tab", "label": "forward"},
            {"id": "in", "type": "mqtt in", "z": "flow", "wires": [["out"]], **take},
            {"id": "out", "type": "mqtt out", "z": "flow", "topic": "", "qos": "1", "broker": "sink", "wires": []},
            _broker("source", source_port),
            _broker("sink", sink_port),
        ]


def _broker(name: str, port: int) -> dict[str, object]:
    return {
        "id": name,
        "type": "mqtt-broker",
        "broker": "127.0.0.1",
        "port": str(port),
        "clientid": f"node-red-{name}",
        "autoConnect": True,
        "usetls": False,
        "protocolVersion": "4",
        "keepalive": "60",
        "cleansession": False,
    }


def _installed_modules() -> Path:
    """Install the packages below the virtual environment, if they are missing. Raises: Missing."""
    folder = Path(sys.prefix) / "peers" / "node-red"
    modules = folder / "node_modules"
    if not (modules / "node" / "bin" / "node").exists():
        folder.mkdir(parents=True, exist_ok=True)
        install(["npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--loglevel=error", *PACKAGES])
    return modules
