"""The running parts of a scenario: processes, ports, disks, clocks, links."""

from testbed.bench.agents import AgentPart
from testbed.bench.bench import Bench
from testbed.bench.breaking import break_as_planned
from testbed.bench.devices import CountingDevice, Microcontroller, MqttDevice, SerialDevice
from testbed.bench.servers import CollectorServer, NodeServer, Server

__all__ = [
    "AgentPart",
    "Bench",
    "CollectorServer",
    "CountingDevice",
    "Microcontroller",
    "MqttDevice",
    "NodeServer",
    "SerialDevice",
    "Server",
    "break_as_planned",
]
