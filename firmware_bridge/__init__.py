"""The link to microcontrollers: a C library for them, the gateway's side of it in Python, and firmware update.

port ◄──► DeviceLink ──► HostSession ──► events: LinkUp, Measured, LogReceived, StatusReceived, LinkLost
          moves bytes    decides         commit(tokens), ask(FW_…), call(command)
"""

from firmware_bridge.device_link import BytePort, DeviceLink, ReopeningPort, read_clocks
from firmware_bridge.device_requests import DeviceRequests
from firmware_bridge.errors import CommandRejected, ConfigError, LinkDown
from firmware_bridge.events import Event, LinkCounters, LinkLost, LinkUp, LogReceived, Measured, StatusReceived
from firmware_bridge.key_file import read_link_key
from firmware_bridge.reception import Moment
from firmware_bridge.session import HostSession
from firmware_bridge.update import RequestLink, UpdateReport, UpdateResult, check_signature, update_firmware

__all__ = [
    "BytePort",
    "CommandRejected",
    "ConfigError",
    "DeviceLink",
    "DeviceRequests",
    "Event",
    "HostSession",
    "LinkCounters",
    "LinkDown",
    "LinkLost",
    "LinkUp",
    "LogReceived",
    "Measured",
    "Moment",
    "ReopeningPort",
    "RequestLink",
    "StatusReceived",
    "UpdateReport",
    "UpdateResult",
    "check_signature",
    "read_clocks",
    "read_link_key",
    "update_firmware",
]
