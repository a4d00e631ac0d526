"""What a running agent has loaded: memory is decided by imports more than by anything else."""

import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from agent.keys import DeviceKeys, create_key_file
from testbed.processes import free_port
from tests.support.processes import ended

pytestmark = pytest.mark.slow

CONFIGURATION = """\
[device]
name = "bench"
data_directory = "data"
[page]
listen = "{page}"
[drivers.plant]
driver = "mqtt"
host = "127.0.0.1"
port = {closed_port}
[[drivers.plant.subscriptions]]
topic = "plant/{{sensor}}"
format = "json"
[drivers.plant.subscriptions.quantities.value]
unit = "Cel"
[publishers.broker]
kind = "mqtt"
host = "127.0.0.1"
port = {closed_port}
"""
NODE_PUBLISHER = """\
[publishers.node]
kind = "websocket"
url = "ws://127.0.0.1:{closed_port}"
"""
COMMAND = "import sys; from agent.cli import main; exit_code = main(); print(*sys.modules); sys.exit(exit_code)"
MQTT = {"paho.mqtt.client"}
WEBSOCKET = {"websockets.asyncio.client", "protocol.streamr.control", "http.client", "email"}
PAGE = {"agent.service.page", "h11", "runtime.http"}
ALWAYS_TRIED = {"device=plant", "publisher=broker"}
WITHOUT = {
    "agent.archive.archiver",
    "agent.archive.stage",
    "agent.pack.encryption",
    "agent.service.page.metrics",
    "agent.publish.file",
    "agent.publish.http",
    "agent.ship",
    "bz2",
    "cryptography",
    "csv",
    "difflib",
    "eth_keys",
    "firmware_bridge",
    "getpass",
    "importlib.resources",
    "lzma",
    "multiprocessing",
    "nacl",
    "protocol.iomessage.as_xml",
    "protocol.streamr.network",
    "protocol.streamr.tracker",
    "pwd",
    "pymodbus",
    "runpy",
    "serial",
    "shutil",
    "tempfile",
    "urllib.response",
    "xml",
    "zipfile",
}


def test_an_agent_with_both_transports_loads_nothing_that_its_configuration_does_without(tmp_path: Path) -> None:
    configuration = CONFIGURATION + NODE_PUBLISHER
    loaded = _modules_of_a_running_agent(tmp_path, configuration, {"status page", "publisher=node"})
    assert loaded >= MQTT | WEBSOCKET | PAGE
    assert loaded & WITHOUT == set()


def test_an_agent_without_a_node_loads_no_http_client(tmp_path: Path) -> None:
    loaded = _modules_of_a_running_agent(tmp_path, CONFIGURATION, {"status page"})
    assert loaded >= MQTT | PAGE
    assert loaded & (WITHOUT | WEBSOCKET) == set()


def test_an_agent_without_a_page_loads_no_http_server(tmp_path: Path) -> None:
    loaded = _modules_of_a_running_agent(tmp_path, CONFIGURATION.replace("{page}", "off"), set())
    assert loaded >= MQTT
    assert loaded & (WITHOUT | PAGE) == set()


def _modules_of_a_running_agent(folder: Path, configuration: str, also_awaited: set[str]) -> set[str]:
    """The modules that are loaded after every destination was tried and the agent was stopped."""
    page = f"127.0.0.1:{free_port()}"
    (folder / "headgate.toml").write_text(configuration.format(page=page, closed_port=free_port()))
    create_key_file(folder / "data" / "keys" / "device.keys", DeviceKeys.generate(lambda count: b"\x11" * count), None)
    command = [sys.executable, "-c", COMMAND, "run", "--config", str(folder / "headgate.toml")]
    with ended(
        subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    ) as process:
        assert process.stderr is not None
        _wait_until_all_was_tried(process.stderr, {*ALWAYS_TRIED, *also_awaited})
        process.send_signal(signal.SIGTERM)
        modules, _ = process.communicate()
    assert process.returncode == 0
    return set(modules.split())


def _wait_until_all_was_tried(log: Iterable[str], awaited: set[str]) -> None:
    for line in log:
        awaited -= {each for each in awaited if each in line}
        if not awaited:
            return
    raise AssertionError(f"it ended without a word of {awaited}")
