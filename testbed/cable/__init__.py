"""Serial cables made of ptys: paced like a line, damaged like a line, pulled and plugged in again, or half open."""

from testbed.cable.cable import Cable
from testbed.cable.faults import CLEAN, Faults, Spoiler
from testbed.cable.pace import LinePace
from testbed.cable.port import PtyPort, joined_ports

__all__ = ["CLEAN", "Cable", "Faults", "LinePace", "PtyPort", "Spoiler", "joined_ports"]
