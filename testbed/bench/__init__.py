"""The bench: the running parts of a scenario (processes, ports, disks, clocks, links), and its faults."""

from testbed.bench.agents import AgentPart
from testbed.bench.bench import Bench
from testbed.bench.devices import Microcontroller, MqttDevice, SerialDevice
from testbed.bench.injection import inject_faults, inject_final_faults
from testbed.bench.servers import CollectorServer, NodeServer

__all__ = [
    "AgentPart",
    "Bench",
    "CollectorServer",
    "Microcontroller",
    "MqttDevice",
    "NodeServer",
    "SerialDevice",
    "inject_faults",
    "inject_final_faults",
]
