"""Scenarios: the parts, the faults and their times, and the expected result. Plain values only."""

from testbed.scenario.document import SCENARIO_FOLDER, Scenario, list_scenarios, load_scenario, parse_scenario
from testbed.scenario.faults import Fault, Moment, Progress
from testbed.scenario.parts import Agent, Broker, Collector, Device, Expectation, Node, Tracker

__all__ = [
    "SCENARIO_FOLDER",
    "Agent",
    "Broker",
    "Collector",
    "Device",
    "Expectation",
    "Fault",
    "Moment",
    "Node",
    "Progress",
    "Scenario",
    "Tracker",
    "list_scenarios",
    "load_scenario",
    "parse_scenario",
]
