"""Commands to real firmware, and asking who is there: over a tty, with noise, resets and pulled cables."""

import asyncio
import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.cli import main
from agent.operator.firmware_devices import LineSettings, open_directly
from drivers import build_driver
from drivers.firmware.driver import FirmwareDriver
from drivers.firmware.port import probe_ports
from firmware_bridge import LinkDown
from protocol.link import CommandStatus
from testbed.cable import Cable, Faults
from testbed.microcontroller import HostBoard
from tests.support.driver_samples import write_tree
from tests.support.qemu_board import QemuBoard

pytestmark = [pytest.mark.slow, pytest.mark.needs("gcc", "gcc"), pytest.mark.needs("make", "make")]
needs_qemu = [
    pytest.mark.needs("qemu-system-arm", "qemu-system-arm"),
    pytest.mark.needs("arm-none-eabi-gcc", "gcc-arm-none-eabi"),
]
LINE = LineSettings(baudrate=115_200, key_file=None)
NOISE = Faults(bit_flips=0.001)


async def count_to(total: int, port: Path, disturb: Callable[[int], None]) -> list[int]:
    """Have the device add 1, again and again, while it is disturbed; what it answers."""
    answers = []
    async with open_directly(str(port), LINE) as link:
        await link.opened()
        for number in range(total):
            disturb(number)
            result = await link.call("count", 1, patience_s=60)
            assert result.status is CommandStatus.DONE
            assert isinstance(result.value, int)
            answers.append(result.value)
    return answers


@pytest.mark.parametrize("board_kind", [pytest.param("qemu", marks=needs_qemu), "host"])
def test_every_command_is_executed_once_however_bad_the_line(
    board_kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    firmware = request.getfixturevalue(f"{board_kind}_firmware")
    board = QemuBoard(firmware, tmp_path) if board_kind == "qemu" else HostBoard(firmware)
    with board, Cable(tmp_path / "port", board.uart, baudrate=115200, faults=NOISE) as cable:
        answers = asyncio.run(count_to(25, tmp_path / "port", lambda _: None))
        assert answers == list(range(1, 26))
        assert cable.damaged_bytes > 0


def test_a_command_is_executed_once_although_the_cable_is_cut_one_way(tmp_path: Path, host_firmware: Path) -> None:
    """Half open: the device hears the command and its answer does not come, so it is sent again and again."""
    with HostBoard(host_firmware) as board, Cable(tmp_path / "port", board.uart) as cable:

        def cut_for_a_while(number: int) -> None:
            cable.cut(to_host=True, to_device=False)
            asyncio.get_running_loop().call_later(0.1 * number, cable.repair)

        assert asyncio.run(count_to(5, tmp_path / "port", cut_for_a_while)) == [1, 2, 3, 4, 5]


def test_a_command_interrupted_by_a_reset_is_not_repeated_and_reported_as_unknown(
    tmp_path: Path, host_firmware: Path
) -> None:
    async def test() -> None:
        async with open_directly(str(tmp_path / "port"), LINE) as link:
            await link.opened()
            cable.cut(to_host=True, to_device=False)
            calling = asyncio.create_task(link.call("count", 1))
            await asyncio.sleep(0.05)  # it is on its way
            board.reset(cable)
            cable.repair()
            with pytest.raises(LinkDown, match="whether the command ran is not known"):
                await calling
            assert (await link.call("count", 5)).value == 5

    with HostBoard(host_firmware) as board, Cable(tmp_path / "port", board.uart) as cable:
        asyncio.run(test())


def test_who_is_behind_a_port_is_found_by_asking(tmp_path: Path, host_firmware: Path) -> None:
    options = ("--key", "11" * 32)
    with (
        HostBoard(host_firmware, device_id="green house") as open_board,
        HostBoard(host_firmware, device_id="vault", options=options) as secret_board,
        Cable(tmp_path / "one", open_board.uart),
        Cable(tmp_path / "two", secret_board.uart),
    ):
        ports = [str(tmp_path / name) for name in ("one", "two", "absent")]
        answers = probe_ports(ports, 115200)
    assert [answer.description for answer in answers.values()] == [
        "green house, firmware 1.0.0: temperature Cel, relative humidity %, voltage V, state, count",
        "vault, firmware 1.0.0: requires a key",
    ]


def test_devices_shows_a_microcontroller_with_the_settings_to_read_it(
    tmp_path: Path, host_firmware: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tree(tmp_path / "root", {"sys/class/tty/ttyS0/device/uevent": "", "dev/null": ""})
    with (
        HostBoard(host_firmware, device_id='green "house"') as board,
        Cable(tmp_path / "root/dev/ttyS0", board.uart),
    ):
        assert main(["devices", "--identify", "--json", "--root", str(tmp_path / "root")]) == 0
    [row] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert row["kind"] == "microcontroller"
    assert row["settings"].splitlines()[0] == "[drivers.green__house_]"
    table = tomllib.loads(row["settings"])["drivers"]["green__house_"]
    driver = build_driver("x", table)
    assert isinstance(driver, FirmwareDriver)
    assert driver.settings.device_id == 'green "house"'


def test_an_operator_calls_a_command_by_name(
    tmp_path: Path, host_firmware: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = ["--port", str(tmp_path / "port")]
    with HostBoard(host_firmware) as board, Cable(tmp_path / "port", board.uart):
        assert main(["firmware", "call", *port]) == 0
        assert main(["firmware", "call", "count", "5", *port]) == 0
        assert main(["firmware", "call", "count", "37", "--json", *port]) == 0
        assert main(["firmware", "call", "led", "7", *port]) == 1
        assert main(["firmware", "call", "say", "hello there", *port]) == 0
        assert main(["firmware", "call", "explode", *port]) == 69
    shown, problem = capsys.readouterr()
    assert shown.splitlines() == [
        "led             0 or 1",
        "interval_ms     10 to 60000",
        "count           number to add",
        "say             text for the log",
        "done  5",
        '{"status": "done", "value": 42}',
        "invalid argument",
        "done",
    ]
    assert "the device has no command 'explode'; there are: led, interval_ms, count, say" in problem


def test_probe_shows_what_a_device_measures_and_takes_nothing_from_it(
    tmp_path: Path, host_firmware: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        HostBoard(host_firmware, options=("--interval-ms", "20")) as board,
        Cable(tmp_path / "port", board.uart),
    ):
        for _ in range(2):
            assert main(["probe", "firmware", f"port={tmp_path / 'port'}", "--count", "5", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["value"] for row in rows if row["sensor"] == "host-example/cycle"] == [0, 0]
