"""Does each far end answer: its name, its port, its certificate, and the login of a node or a broker?

Only what does not disturb: a second MQTT session under the agent's name would throw the first one out, so a broker is
greeted under a name of the doctor's own.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from agent.config import Config
from agent.doctor.finding import Finding, error, good
from agent.errors import in_words
from agent.keys import DeviceKeys
from agent.publish.node_url import NodeUrl
from agent.publisher_config import (
    FileConfig,
    HttpConfig,
    MqttConfig,
    PublisherConfig,
    WebsocketConfig,
    build_mqtt_publisher,
)
from protocol.errors import HeadgateError

__all__ = ["FarEnd", "LinkFacts", "far_ends", "gather_link", "judge_link"]

AREA: Final = "link"
TIMEOUT_S: Final = 5.0
ADVICE: Final = {
    "name": "check the spelling, and the name server (resolvectl status)",
    "connection": "check cable or Wi-Fi, the far end, and the firewall between",
    "certificate": "check ca_file, the name in the certificate, and the clock",
    "login": "check that the far end knows this device's address (headgate keys show), or username and password_file",
    "folder": "make the folder, and give it to the agent's user",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FarEnd:
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


def far_ends(config: Config) -> list[FarEnd]:
    device = config.device.name
    ends = [_far_end(f"publishers.{name}", publisher, device) for name, publisher in config.publishers.items()]
    if config.ship and config.ship.directory:
        ends.append(FarEnd(name="ship", folder=config.ship.directory))
    elif config.ship and config.ship.url:
        parts = urlsplit(config.ship.url)
        is_secure = parts.scheme == "https"
        port = parts.port or (443 if is_secure else 80)
        ends.append(
            FarEnd(name="ship", host=parts.hostname or "", port=port, is_secure=is_secure, ca_file=config.ship.ca_file)
        )
    return ends


def _far_end(name: str, config: PublisherConfig, device: str) -> FarEnd:
    match config:
        case WebsocketConfig() | HttpConfig():
            url = NodeUrl.parse(config.url)
            return FarEnd(
                name=name, host=url.host, port=url.port, is_secure=url.is_secure, ca_file=config.ca_file, node=url
            )
        case MqttConfig():
            return FarEnd(
                name=name,
                host=config.host,
                port=config.port,
                is_secure=config.use_tls,
                ca_file=config.ca_file,
                broker=config,
                client_id=f"{config.client_id or device}-doctor",
            )
        case FileConfig():
            return FarEnd(name=name, folder=config.path if config.form == "directory" else config.path.parent)
    raise TypeError(f"no far end for {type(config).__name__}")


def gather_link(end: FarEnd, keys: Callable[[], DeviceKeys] | None) -> LinkFacts:
    """Step by step, as far as it goes. `keys` are for a login; without them there is none."""
    if end.folder is not None:
        return _look_at_folder(end.name, end.folder)
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
        problem = "no answer in time" if isinstance(refusal, TimeoutError) else in_words(refusal)
        return LinkFacts(name=end.name, where=where, failed_at=step, problem=problem)
    return LinkFacts(name=end.name, where=where)


def _log_in(url: NodeUrl, ca_file: Path | None, keys: DeviceKeys) -> None:
    from agent.publish.node_rest import NodeRest, NodeSession
    from protocol.streamr import Signer

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


def _look_at_folder(name: str, folder: Path) -> LinkFacts:
    if os.access(folder, os.W_OK | os.X_OK):
        return LinkFacts(name=name, where=str(folder))
    problem = "not writable for this user" if folder.is_dir() else "there is no such folder"
    return LinkFacts(name=name, where=str(folder), failed_at="folder", problem=problem)


def judge_link(facts: LinkFacts) -> list[Finding]:
    if not facts.failed_at:
        return [good(AREA, f"{facts.name}: {facts.where} answers")]
    return [error(AREA, f"{facts.name}: {facts.where}: {facts.failed_at}: {facts.problem}", ADVICE[facts.failed_at])]
