"""What a running agent has loaded: memory is decided by imports more than by anything else."""

import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from agent.keys import DeviceKeys, create_key_file
from testbed.free_port import free_port

pytestmark = pytest.mark.slow

CONFIGURATION = """\
[device]
name = "bench"
data_directory = "data"
[page]
listen = "127.0.0.1:{page_port}"
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
[publishers.node]
kind = "websocket"
url = "ws://127.0.0.1:{closed_port}"
"""
COMMAND = "import sys; from agent.cli import main; exit_code = main(); print(*sys.modules); sys.exit(exit_code)"
BOTH_TRANSPORTS = {"paho.mqtt.client", "websockets.asyncio.client", "protocol.streamr.control"}
WITHOUT = {
    "agent.archive",
    "agent.archiving",
    "agent.encryption",
    "agent.page.metrics",
    "agent.publish.file",
    "agent.publish.http",
    "agent.ship",
    "cryptography",
    "difflib",
    "eth_keys",
    "firmware_bridge",
    "getpass",
    "multiprocessing",
    "nacl",
    "protocol.iomessage.as_xml",
    "protocol.streamr.network",
    "protocol.streamr.tracker",
    "pymodbus",
    "runpy",
    "serial",
    "xml",
}


def test_an_agent_with_both_transports_loads_nothing_that_its_configuration_does_without(tmp_path: Path) -> None:
    loaded = _modules_of_a_running_agent(tmp_path)
    assert loaded >= BOTH_TRANSPORTS
    assert loaded & WITHOUT == set()


def _modules_of_a_running_agent(folder: Path) -> set[str]:
    """All that it has when every far end was tried, the page is up, and it is told to stop."""
    (folder / "headgate.toml").write_text(CONFIGURATION.format(page_port=free_port(), closed_port=free_port()))
    create_key_file(folder / "data" / "keys" / "device.keys", DeviceKeys.generate(lambda count: b"\x11" * count), None)
    command = [sys.executable, "-c", COMMAND, "run", "--config", str(folder / "headgate.toml")]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        _wait_until_all_was_tried(process.stderr)
        process.send_signal(signal.SIGTERM)
        modules, _ = process.communicate()
    assert process.returncode == 0
    return set(modules.split())


def _wait_until_all_was_tried(log: Iterable[str]) -> None:
    awaited = {"device=plant", "publisher=broker", "publisher=node", "status page"}
    for line in log:
        awaited -= {each for each in awaited if each in line}
        if not awaited:
            return
    raise AssertionError(f"it ended without a word of {awaited}")
