"""`headgate devices --identify`, where an agent holds the port of a microcontroller."""

import asyncio
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.cli import main
from agent.config.configuration import load_config
from agent.service.shared_link import share_links
from tests.unit.agent.service.test_shared_link import HELLO, KnownAnswers
from tests.unit.drivers.test_ports import plug_usb


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "headgate.toml"
    path.write_text('[device]\nname = "bench"\ndata_directory = "data"\n')
    (tmp_path / "data").mkdir()
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    plug_usb(tmp_path / "root", "ttyUSB0", "1-1", vendor="0403", product="6001", serial="A10K")
    return tmp_path / "root"


@pytest.fixture
def agent(config: Path, root: Path) -> Iterator[None]:
    """Shares the link of its driver `mcu`, and says in its status which port that holds."""
    loaded = load_config(config)
    devices = {"mcu": {"identity": {"device": "x", "firmware": "y", "port": str(root / "dev/ttyUSB0")}}}
    loaded.status_file.write_text(json.dumps({"version": 1, "pid": os.getpid(), "devices": devices}))
    loop = asyncio.new_event_loop()
    sharing = loop.create_task(share_links(loaded.links_socket, lambda name: KnownAnswers() if name == "mcu" else None))
    thread = threading.Thread(target=lambda: loop.run_until_complete(asyncio.wait([sharing])))
    thread.start()
    while not loaded.links_socket.exists():
        threading.Event().wait(0.001)
    yield
    loop.call_soon_threadsafe(sharing.cancel)
    thread.join()
    loop.close()


def _asked(config: Path, root: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    assert main(["devices", "--identify", "--json", "--root", str(root), "--config", str(config)]) == 0
    [row] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return {name: row[name] for name in ("name", "kind", "description")}


@pytest.mark.usefixtures("agent")
def test_the_agent_is_asked_for_the_port_that_it_holds(
    config: Path, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reported = f"{HELLO.device_id}, firmware {HELLO.firmware}: read by the agent, as driver mcu"
    assert _asked(config, root, capsys) == {"name": "/dev/ttyUSB0", "kind": "microcontroller", "description": reported}


def test_without_an_agent_the_port_itself_is_asked(
    config: Path, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _asked(config, root, capsys)["kind"] == "serial", "it does not answer: there is nothing behind it"
