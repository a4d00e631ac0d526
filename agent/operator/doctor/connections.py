"""Checks serial ports (present, permitted, free) and links (name, port, certificate, login of a node or a broker).

A check never disturbs the agent: a second MQTT session under the agent's client id would push out the first, so the
doctor connects to a broker under a client id of its own.
"""

import asyncio
import os
import re
import socket
import ssl
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from agent.config.configuration import Config
from agent.config.publishers import (
    FileConfig,
    HttpConfig,
    MqttConfig,
    PublisherConfig,
    WebsocketConfig,
    build_mqtt_publisher,
)
from agent.keys import DeviceKeys
from agent.operator.doctor.finding import Finding, error, good, warning
from agent.publish.node_url import NodeUrl
from drivers.ports import find_port
from protocol.errors import HeadgateError
from runtime.errors import connection_error_text

PORT: Final = "port"
MAX_PROCESSES: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PortFacts:
    driver: str
    wanted: str  # as the settings name it
    device: str | None  # None while it is absent
    may_open: bool = True
    holders: tuple[str, ...] = ()  # other processes that have it open, as far as this user may see them


def gather_ports(config: Config, own_pids: Collection[int], root: Path = Path("/")) -> list[PortFacts]:
    """One for each port; of a pattern, one for each that fits."""
    wanted = [(name, port) for name, driver in config.build_drivers().items() for port in driver.ports]
    return [
        PortFacts(driver=name, wanted=port, device=None)
        if device is None
        else _gather_port(name, port, device, own_pids, root)
        for name, port in wanted
        for device in _find(port, root)
    ]


def _find(port: str, root: Path) -> list[str | None]:
    if not re.search(r"[*?[]", port):
        return [find_port(port, None, root)]
    return [f"/{found.relative_to(root)}" for found in sorted(root.glob(port.lstrip("/")))] or [None]


def _gather_port(driver: str, port: str, device: str, own_pids: Collection[int], root: Path) -> PortFacts:
    file = root / device.lstrip("/")
    return PortFacts(
        driver=driver,
        wanted=port,
        device=device,
        may_open=os.access(file, os.R_OK | os.W_OK),
        holders=tuple(_holders(file.resolve(), own_pids, root / "proc")),
    )


def _holders(file: Path, own_pids: Collection[int], proc: Path) -> Iterator[str]:
    processes = (entry for entry in proc.iterdir() if entry.name.isdecimal() and int(entry.name) not in own_pids)
    for _, process in zip(range(MAX_PROCESSES), processes, strict=False):
        try:
            if any(descriptor.readlink() == file for descriptor in (process / "fd").iterdir()):
                yield f"{(process / 'comm').read_text().strip()} ({process.name})"
        except OSError:  # it ended, or belongs to another user
            continue


def judge_port(facts: PortFacts) -> list[Finding]:
    name = f"{facts.driver}: {facts.wanted}"
    if facts.device is None:
        return [error(PORT, f"{name}: no such port", "plug it in; headgate devices lists the attached devices")]
    if not facts.may_open:
        advice = (
            "add the user to the group dialout (usermod -aG dialout USER); for the service run headgate systemd --write"
        )
        return [error(PORT, f"{name}: permission denied for this user", advice)]
    if facts.holders:
        advice = "stop that program, or use another port (ModemManager: systemctl disable --now ModemManager)"
        return [warning(PORT, f"{name} is in use by {', '.join(facts.holders)}", advice)]
    return [good(PORT, f"{name}: present")]


AREA: Final = "link"
TIMEOUT_S: Final = 5.0
ADVICE: Final = {
    "name": "check the spelling and the DNS server (resolvectl status)",
    "connection": "check the cable or Wi-Fi, the destination, and firewalls",
    "certificate": "check ca_file, the host name in the certificate, and the clock",
    "login": "check the permissions of this device's address (headgate keys show), or username and password_file",
    "folder": "create the folder and chown it to the agent's user",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTarget:
    """One link of the configuration, as far as it can be tried from here."""

    name: str
    host: str = ""
    port: int = 0
    is_secure: bool = False
    ca_file: Path | None = None
    folder: Path | None = None  # where there is no host
    node: NodeUrl | None = None  # where one can log in …
    broker: MqttConfig | None = None  # … or here, under this name
    client_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFacts:
    name: str
    where: str
    failed_at: str = ""  # name, connection, certificate, login, folder; "" if all went well
    problem: str = ""


def link_targets(config: Config) -> list[LinkTarget]:
    device = config.device.name
    ends = [_link_target(f"publishers.{name}", publisher, device) for name, publisher in config.publishers.items()]
    if config.ship and config.ship.directory:
        ends.append(LinkTarget(name="ship", folder=config.ship.directory))
    elif config.ship and config.ship.url:
        parts = urlsplit(config.ship.url)
        is_secure = parts.scheme == "https"
        port = parts.port or (443 if is_secure else 80)
        ends.append(
            LinkTarget(
                name="ship", host=parts.hostname or "", port=port, is_secure=is_secure, ca_file=config.ship.ca_file
            )
        )
    return ends


def _link_target(name: str, config: PublisherConfig, device: str) -> LinkTarget:
    match config:
        case WebsocketConfig() | HttpConfig():
            url = NodeUrl.parse(config.url)
            return LinkTarget(
                name=name, host=url.host, port=url.port, is_secure=url.is_secure, ca_file=config.ca_file, node=url
            )
        case MqttConfig():
            return LinkTarget(
                name=name,
                host=config.host,
                port=config.port,
                is_secure=config.tls == "on",
                ca_file=config.ca_file,
                broker=config,
                client_id=f"{config.client_id or device}-doctor",
            )
        case FileConfig():
            return LinkTarget(name=name, folder=config.path if config.format == "directory" else config.path.parent)
    raise TypeError(f"no destination for {type(config).__name__}")


def gather_link(end: LinkTarget, keys: Callable[[], DeviceKeys] | None) -> LinkFacts:
    """Try the link step by step, up to the first failure. Without `keys` there is no login."""
    if end.folder is not None:
        return _gather_folder(end.name, end.folder)
    where = f"{end.host}:{end.port}"
    step = "name"
    try:
        socket.getaddrinfo(end.host, end.port, type=socket.SOCK_STREAM)
        step = "connection"
        with socket.create_connection((end.host, end.port), timeout=TIMEOUT_S) as connection:
            step = "certificate"
            if end.is_secure:
                ssl.create_default_context(cafile=end.ca_file).wrap_socket(connection, server_hostname=end.host).close()
        step = "login"
        if end.node is not None and keys is not None:
            _log_in(end.node, end.ca_file, keys())
        elif end.broker is not None:
            asyncio.run(_greet(end.broker, end.client_id))
    except (OSError, HeadgateError, UnicodeError) as refusal:
        problem = connection_error_text(refusal, end.host)
        return LinkFacts(name=end.name, where=where, failed_at=step, problem=problem)
    return LinkFacts(name=end.name, where=where)


def _log_in(url: NodeUrl, ca_file: Path | None, keys: DeviceKeys) -> None:
    from agent.publish.node_rest import NodeRest, NodeSession
    from protocol.ethereum.signer import Signer

    rest = NodeRest(url, timeout_s=TIMEOUT_S, tls=url.tls_context(ca_file))
    try:
        NodeSession(rest, Signer(keys.identity.reveal())).token()
    finally:
        rest.close()


async def _greet(config: MqttConfig, client_id: str) -> None:
    publisher = build_mqtt_publisher("doctor", config, client_id)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await publisher.connect()
    finally:
        await publisher.close()


def _gather_folder(name: str, folder: Path) -> LinkFacts:
    if os.access(folder, os.W_OK | os.X_OK):
        return LinkFacts(name=name, where=str(folder))
    problem = "not writable by this user" if folder.is_dir() else "no such folder"
    return LinkFacts(name=name, where=str(folder), failed_at="folder", problem=problem)


def judge_link(facts: LinkFacts) -> list[Finding]:
    if not facts.failed_at:
        return [good(AREA, f"{facts.name}: {facts.where} answers")]
    return [error(AREA, f"{facts.name}: {facts.where}: {facts.failed_at}: {facts.problem}", ADVICE[facts.failed_at])]
