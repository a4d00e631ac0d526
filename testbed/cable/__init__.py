"""Serial cables made of ptys, with the speed and errors of a line; they can be cut, half cut and unplugged."""

from testbed.cable.cable import Cable
from testbed.cable.line import CLEAN, Faults, LinePace, Spoiler
from testbed.cable.port import PtyPort

__all__ = ["CLEAN", "Cable", "Faults", "LinePace", "PtyPort", "Spoiler"]
