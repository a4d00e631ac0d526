"""The parts of a scenario. Each table of a scenario file is one of these; the annotations are the rules."""

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from runtime.settings import Between, Matching, Text

NAME_FORM: Final = Matching("[a-z][a-z0-9_]{0,30}", "north_2")
Name = Annotated[str, NAME_FORM]
Address = Annotated[str, Matching(r"[A-Za-z0-9._-]+:[0-9]{1,5}", "10.0.0.5:7070")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracker:
    """A tracker, which assigns neighbours to nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    address: Address | None = None  # of a node that runs already; none: one is started
    tracker: Name | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    address: Address | None = None  # of a broker that runs already; none: a mosquitto is started


@dataclass(frozen=True, slots=True, kw_only=True)
class Collector:
    """A collector. It is always started here, because the oracle reads its landing area."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    collector: Name
    node: Name | None = None  # publishes there by websocket
    broker: Name | None = None  # publishes there by MQTT
    encryption: Literal["none", "aes"] = "none"
    rotate_after_messages: Annotated[int, Between(1, 1_000_000)] | None = None
    disk_megabytes: Annotated[int, Between(8, 1024)] | None = None  # its own disk, which can lose power or fill up
    journal_megabytes: Annotated[int, Between(1, 1024)] = 16
    when_full: Literal["shed", "stop_reading"] = "shed"
    commit_interval_s: Annotated[float, Between(0, 60)] = 0.1
    archive_every_s: Annotated[float, Between(0.1, 3600)] = 1.0
    clock: Literal["synchronised", "1970"] = "synchronised"  # 1970: unsynchronised, like a machine without a battery
    clock_behind_days: Annotated[float, Between(0, 10_000)] = 0.0  # at its start, although synchronised


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A device that sends increasing numbers: `{"n": 17}` on a serial line, or `17` by MQTT at QoS 1.

    A microcontroller runs the example firmware, which numbers its measurements from 0 and holds each until the agent
    has acknowledged it.
    """

    agent: Name
    kind: Literal["serial", "mqtt", "microcontroller"] = "serial"
    broker: Name | None = None  # mqtt: where it publishes
    rate_hz: Annotated[float, Between(0.01, 5000)] = 50.0
    promise: Literal["every", "acknowledged", "none"] = "acknowledged"  # every: each number that it sent must arrive
    port: Text | None = None  # serial: a real port that the agent reads; none: a pty
    write_to: Text | None = None  # serial: the real port at the other end of the cable; none: another program sends


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """The expected result, in addition to what every scenario must fulfil."""

    at_least: Annotated[int, Between(0, 10_000_000)] = 1  # readings in the lake
    losses: Literal["none", "explained"] = "none"  # explained: each reported in a signed message
    archives: Literal["whole", "damaged"] = "whole"  # damaged: on the collector's disk; they must be in quarantine
    missing: Literal["none", "some", "any"] = "none"  # readings; the ledger must say exactly how many of each device
    logs: Literal["any", "continued", "forked"] = (
        "any"  # continued: a device began a new log; forked: a collector saw it
    )
