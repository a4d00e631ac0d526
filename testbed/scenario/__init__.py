"""Scenarios: the parts, the faults and their times, and the expected result. Plain values only."""

from testbed.scenario.document import Scenario, list_scenarios, load_scenario, parse_scenario
from testbed.scenario.faults import End, Fault, Moment, Progress
from testbed.scenario.parts import Agent, Device, Expectation

__all__ = [
    "Agent",
    "Device",
    "End",
    "Expectation",
    "Fault",
    "Moment",
    "Progress",
    "Scenario",
    "list_scenarios",
    "load_scenario",
    "parse_scenario",
]
