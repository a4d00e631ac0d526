"""The link to microcontrollers: a C library for them, the gateway's side of it in Python, and firmware update.

port ◄──► DeviceLink ──► HostSession ──► events: LinkUp, Measured, LogHeard, StatusHeard, LinkLost
          moves bytes    decides         commit(tokens), ask(FW_…), call(command)
"""

from firmware_bridge.device_link import BytePort, DeviceLink, read_clocks
from firmware_bridge.errors import ConfigError, LinkDown, Rejected
from firmware_bridge.events import Event, LinkCounters, LinkLost, LinkUp, LogHeard, Measured, StatusHeard
from firmware_bridge.key_file import read_link_key
from firmware_bridge.questions import Questions
from firmware_bridge.reception import Moment
from firmware_bridge.reopening_port import ReopeningPort
from firmware_bridge.session import HostSession
from firmware_bridge.update import AskingLink, UpdateReport, UpdateResult, check_signature, update_firmware

__all__ = [
    "AskingLink",
    "BytePort",
    "ConfigError",
    "DeviceLink",
    "Event",
    "HostSession",
    "LinkCounters",
    "LinkDown",
    "LinkLost",
    "LinkUp",
    "LogHeard",
    "Measured",
    "Moment",
    "Questions",
    "Rejected",
    "ReopeningPort",
    "StatusHeard",
    "UpdateReport",
    "UpdateResult",
    "check_signature",
    "read_clocks",
    "read_link_key",
    "update_firmware",
]
