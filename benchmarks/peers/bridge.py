"""A mosquitto between the two brokers, bridged to both. Its queue is in memory, and saved every second."""

import getpass
import json
from collections.abc import Sequence

from benchmarks.peers.broker import free_port
from benchmarks.peers.forwarder import Forwarder, numbers_of
from benchmarks.peers.traffic import Arrival

CONFIGURATION = """\
user {user}
listener {port} 127.0.0.1
allow_anonymous true
max_queued_messages 0
max_inflight_messages 1000
persistence true
persistence_location {folder}/
autosave_interval 1
connection from-source
address 127.0.0.1:{source_port}
topic {name}/# in 1
cleansession false
connection to-sink
address 127.0.0.1:{sink_port}
topic {name}/# out 1
cleansession false
"""


class MosquittoBridge(Forwarder):
    name = "bridge"

    def set_up(self, source_port: int, sink_port: int) -> None:
        text = CONFIGURATION.format(
            user=getpass.getuser(),
            port=free_port(),
            folder=self.folder,
            name=self.name,
            source_port=source_port,
            sink_port=sink_port,
        )
        (self.folder / "bridge.conf").write_text(text)

    def command(self) -> Sequence[str]:
        return ["mosquitto", "-c", str(self.folder / "bridge.conf")]

    def numbers_in(self, arrival: Arrival) -> list[int]:
        if not arrival.topic.startswith(f"{self.name}/"):
            return []
        return numbers_of([json.loads(arrival.payload)["value"]])
