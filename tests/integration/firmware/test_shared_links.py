"""`headgate firmware` while the agent reads the same device, through the link that the agent shares."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from agent.cli import main
from testbed.cable import Cable
from testbed.microcontroller import HostBoard
from tests.support.firmware_gateway import Gateway, command, hello_of, run_agent
from tests.support.running_agent import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.needs("gcc", "gcc"), pytest.mark.needs("make", "make")]


def answers(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["firmware", *arguments, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_device_that_the_agent_reads_is_listed_and_called_and_no_reading_is_lost(
    tmp_path: Path, host_firmware: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = tmp_path / "port"
    with HostBoard(host_firmware) as board, Cable(port, board.uart, baudrate=115200):
        assert command(port, "interval_ms", 50).status == 0
        gateway = Gateway.make(tmp_path / "gateway", port)
        config = ("--config", str(gateway.agent.config))

        def scene() -> None:
            gateway.wait_for_cycles(3)
            socket = gateway.agent.folder / "data" / "links.sock"
            wait_until(socket.exists, "the agent shares its links")
            assert stat.S_IMODE(socket.stat().st_mode) == 0o600
            [found] = answers(capsys, "list", *config, "--port", str(port))
            assert (found["firmware"], found["problem"]) == ("1.0.0", "")
            assert found["port"] == str(port)
            assert any(each["device"] == found["device"] for each in answers(capsys, "list", *config))
            commands = answers(capsys, "call", *config, "--port", str(port))
            assert "count" in {each["command"] for each in commands}
            for total in (1, 2, 3):
                [result] = answers(capsys, "call", "count", "1", *config, "--port", str(port))
                assert result == {"status": "done", "value": total}
            gateway.wait_for_cycles(3)

        run_agent(gateway, scene)
        assert not (gateway.agent.folder / "data" / "links.sock").exists()
        gateway.assert_every_cycle_once(dropped=hello_of(port).dropped)  # on a busy machine the agent starts late
        assert gateway.counters()["commands"] == 3
        assert main(["firmware", "call", "count", "1", *config, "--port", str(port)]) == 0, "without the agent too"


def test_an_agent_that_cannot_be_asked_is_named(
    tmp_path: Path, host_firmware: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = tmp_path / "port"
    with HostBoard(host_firmware) as board, Cable(port, board.uart, baudrate=115200):
        gateway = Gateway.make(tmp_path / "gateway", port)

        def scene() -> None:
            gateway.wait_for_cycles(1)
            socket = gateway.agent.folder / "data" / "links.sock"
            wait_until(socket.exists, "the agent shares its links")
            away = socket.rename(socket.with_suffix(".away"))
            asked = ["firmware", "call", "--config", str(gateway.agent.config), "--port", str(port)]
            assert main(asked) == 69
            assert "driver mcu, and the agent cannot be reached" in capsys.readouterr().err
            away.rename(socket)

        run_agent(gateway, scene)
