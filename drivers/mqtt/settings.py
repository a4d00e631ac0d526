"""The settings of the mqtt driver."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from drivers.errors import ConfigError
from drivers.mqtt.mappings import Subscription
from drivers.settings import Between, Port, Text

__all__ = ["MqttSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MqttSettings:
    host: Text
    port: Port = 1883
    ready_made: tuple[Literal["tasmota", "zigbee2mqtt", "esphome"], ...] = ()
    subscriptions: tuple[Subscription, ...] = ()
    version: Literal["5", "3.1.1"] = "5"
    client_id: str = (
        ""  # default: headgate- and the driver's name; the session hangs on it, so each gateway has its own
    )
    qos: Literal[0, 1] = 1
    session_expiry_s: Annotated[int, Between(0, 0xFFFFFFFF)] = 604_800  # how long the broker keeps what we miss
    retained: Literal["skip", "take"] = "skip"  # what was published before we came has no time of its own
    keepalive_s: Annotated[int, Between(5, 3600)] = 30
    connect_timeout_s: Annotated[float, Between(0.1, 120)] = 10.0
    username: str = ""
    password_file: Path | None = None
    tls: Literal["off", "on"] = "off"
    ca_file: Path | None = None  # default: the certificates that the system trusts
    cert_file: Path | None = None
    key_file: Path | None = None

    def __post_init__(self) -> None:
        problems = []
        if not self.ready_made and not self.subscriptions:
            problems.append("subscriptions: missing; name topics here, or a firmware in ready_made")
        if self.tls == "off" and (self.ca_file or self.cert_file or self.key_file):
            problems.append('tls: off, but certificates are given; did you mean "on"?')
        if (self.cert_file is None) != (self.key_file is None):
            problems.append("cert_file: a certificate and its key_file belong together")
        if self.password_file and not self.username:
            problems.append("username: missing; a password without it is of no use")
        if problems:
            raise ConfigError(*problems)
