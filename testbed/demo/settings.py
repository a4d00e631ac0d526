"""Settings of the demo, and the configuration files of its parts."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from testbed.bench import AgentPart, CollectorServer


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSettings:
    devices: int = 4  # weather stations of all agents
    rate_hz: float = 20.0  # lines per second of each
    step_s: float = 10.0  # how long the network is cut, and other waits
    shown_messages: int = 5
    report: Path

    @classmethod
    def fast(cls, devices: int, report: Path) -> "DemoSettings":
        return cls(devices=devices, step_s=3.0, shown_messages=2, report=report)


def node_configuration(stream: str, publisher: str, reader: str) -> str:
    """Declares the encrypted stream: its device may publish, its reader may subscribe."""
    rights = f'owner = "{publisher}"\npublishers = ["{publisher}"]\nsubscribers = ["{reader}"]'
    return f'[[streams]]\nid = "{stream}"\n{rights}\n'


def weather_table(name: str, port: str) -> str:
    return f"""\
[drivers.{name}]
driver = "serial_line"
port = "{port}"
format = "json"
[drivers.{name}.quantities.temperature]
field = "t"
unit = "Cel"
[drivers.{name}.quantities.humidity]
field = "h"
unit = "%"
"""


def firmware_table(name: str, port: str) -> str:
    return f'[drivers.{name}]\ndriver = "firmware"\nport = "{port}"\n'


def agent_configuration(
    name: str,
    agent: AgentPart,
    drivers: Iterable[str],
    node_port: int,
    collector: CollectorServer,
    reader: str | None,
) -> str:
    """With a `reader` the stream is encrypted, and only that address may read it."""
    secrecy = "" if reader is None else f'encryption = "aes"\nreaders = ["{reader}"]\nrotate_after_messages = 100\n'
    return f"""\
[device]
name = "{name}"
data_directory = "{agent.data}"
key_file = "{agent.key_file}"

[journal]
max_megabytes = 64
commit_interval_s = 0.2
positions_interval_s = 1.0

{"".join(drivers)}
[[streams]]
stream = "{{address}}/{{device}}/weather"
{secrecy}
[publishers.node]
kind = "websocket"
url = "http://127.0.0.1:{node_port}"
retry_max_s = 2.0

[archive]
every_s = 2.0

[ship]
url = "http://127.0.0.1:{collector.port}"
collector_key = "{collector.key_file}"
check_every_s = 0.5

[status]
file = "{agent.status_file}"
every_s = 0.2

[page]
listen = "127.0.0.1:0"
"""
