"""Serial cables made of ptys: paced like a line, damaged like a line, pulled and plugged in again, or half open."""

from testbed.cable.cable import Cable
from testbed.cable.line import CLEAN, Faults, LinePace, Spoiler
from testbed.cable.port import PtyPort, joined_ports

__all__ = ["CLEAN", "Cable", "Faults", "LinePace", "PtyPort", "Spoiler", "joined_ports"]
