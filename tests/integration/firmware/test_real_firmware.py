"""Real firmware, a real tty, a real agent: whatever breaks, no reading is lost and none is stored twice."""

import contextlib
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.cable import CLEAN, Cable, Faults
from testbed.microcontroller import HostBoard, build_firmware
from tests.integration.firmware.conftest import KEY
from tests.support.firmware_gateway import Gateway, command, hello_of, run_agent, run_and_kill_agent
from tests.support.patience import PATIENCE_S
from tests.support.qemu_board import QemuBoard

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs("gcc", "gcc"),
    pytest.mark.needs("make", "make"),
    pytest.mark.needs("qemu-system-arm", "qemu-system-arm"),
    pytest.mark.needs("arm-none-eabi-gcc", "gcc-arm-none-eabi"),
]

HANG_S = 8.0
FLIPS = Faults(bit_flips=0.001)
DAMAGED = Faults(damaged_frames=0.01)
WORSE = Faults(bit_flips=0.0002, drops=0.001, garbage=0.0005)


@contextlib.contextmanager
def plugged(board: HostBoard | QemuBoard, folder: Path) -> Iterator[Cable]:
    with board, Cable(folder / "port", board.uart, baudrate=115200) as cable:
        yield cable


def gateway_of(folder: Path, interval_ms: int, extra: str = "") -> Gateway:
    assert command(folder / "port", "interval_ms", interval_ms).status == 0
    return Gateway.make(folder / "gateway", folder / "port", extra)


def test_readings_of_a_cortex_m3_arrive_signed_and_in_order(tmp_path: Path, qemu_firmware: Path) -> None:
    with plugged(QemuBoard(qemu_firmware, tmp_path), tmp_path):
        gateway = gateway_of(tmp_path, 20)
        run_agent(gateway, lambda: gateway.wait_for_cycles(100))
        gateway.assert_every_cycle_once(dropped=hello_of(tmp_path / "port").dropped)
        assert "device log: link up, firmware 1.0.0; driver=mcu" in gateway.agent.log()


def test_the_same_firmware_as_a_program_does_as_well(tmp_path: Path, host_firmware: Path) -> None:
    with plugged(HostBoard(host_firmware), tmp_path) as cable:
        gateway = gateway_of(tmp_path, 20)
        cable.set_faults(DAMAGED)
        run_agent(gateway, lambda: gateway.wait_for_cycles(100))
        cable.set_faults(CLEAN)
        gateway.assert_every_cycle_once(dropped=hello_of(tmp_path / "port").dropped)


@pytest.mark.parametrize("faults", [FLIPS, DAMAGED, WORSE], ids=["flips", "damaged", "worse"])
def test_noise_on_the_line_costs_no_reading(tmp_path: Path, qemu_firmware: Path, faults: Faults) -> None:
    with plugged(QemuBoard(qemu_firmware, tmp_path), tmp_path) as cable:
        gateway = gateway_of(tmp_path, 40)

        def scene() -> None:
            gateway.wait_for_cycles(1)
            cable.set_faults(faults)
            gateway.wait_for_cycles(100)
            assert cable.damaged_bytes > 0
            cable.set_faults(CLEAN)
            gateway.wait_for_cycles(10)

        run_agent(gateway, scene)
        gateway.assert_every_cycle_once(dropped=hello_of(tmp_path / "port").dropped)


def test_a_reset_begins_a_new_count_and_what_came_before_it_is_whole(tmp_path: Path, qemu_firmware: Path) -> None:
    board = QemuBoard(qemu_firmware, tmp_path)
    with plugged(board, tmp_path) as cable:
        gateway = gateway_of(tmp_path, 200)  # slow enough for its queue to hold all until the agent is there

        def scene() -> None:
            gateway.wait_for_cycles(10)
            board.reset(cable)
            gateway.wait_for_log("microcontroller connected", 2)
            gateway.wait_for_cycles(3)

        run_agent(gateway, scene)
        cycles = gateway.cycles()
        begins = [at for at, cycle in enumerate(cycles) if cycle == 0]
        assert len(begins) == 2
        for boot in (cycles[: begins[1]], cycles[begins[1] :]):
            assert boot == list(range(len(boot))), "in order, whole, and none twice"
        gateway.assert_sensors_agree()


def test_a_device_that_hangs_is_down_and_goes_on_where_it_was(tmp_path: Path, qemu_firmware: Path) -> None:
    board = QemuBoard(qemu_firmware, tmp_path)
    with plugged(board, tmp_path):
        gateway = gateway_of(tmp_path, 50)

        def scene() -> None:
            gateway.wait_for_cycles(10)
            board.pause()
            resumes_at_s = time.monotonic() + HANG_S
            gateway.wait_for_log("device down; device=mcu")
            time.sleep(max(0.0, resumes_at_s - time.monotonic()))  # the fault itself
            board.resume()
            gateway.wait_for_log("device up; device=mcu", 2)
            gateway.wait_for_cycles(10)

        run_agent(gateway, scene)
        gateway.assert_every_cycle_once(dropped=hello_of(tmp_path / "port").dropped)
        assert gateway.counters()["boots"] == 1


def test_a_cable_that_is_pulled_and_plugged_in_again_costs_no_reading(tmp_path: Path, qemu_firmware: Path) -> None:
    with plugged(QemuBoard(qemu_firmware, tmp_path), tmp_path) as cable:
        gateway = gateway_of(tmp_path, 100)

        def scene() -> None:
            for times in (1, 2):
                gateway.wait_for_cycles(5)
                cable.unplug()
                gateway.wait_for_log("device down; device=mcu", times)
                cable.plug()
                gateway.wait_for_log("device up; device=mcu", times + 1)
            gateway.wait_for_cycles(5)

        run_agent(gateway, scene)
        gateway.assert_every_cycle_once(dropped=hello_of(tmp_path / "port").dropped)


def test_an_agent_that_is_killed_before_it_acknowledges_takes_every_reading_once(
    tmp_path: Path, qemu_firmware: Path
) -> None:
    """The way to the device is cut first: what is stored then is sent again to the next process, for certain."""
    with plugged(QemuBoard(qemu_firmware, tmp_path), tmp_path) as cable:
        gateway = gateway_of(tmp_path, 100)

        def scene() -> None:
            gateway.wait_for_cycles(2)
            cable.cut(to_host=False, to_device=True)
            gateway.wait_for_cycles(2)

        for _ in range(3):
            run_and_kill_agent(gateway, scene)
            cable.repair()
        run_agent(gateway, lambda: gateway.wait_for_cycles(5))
        gateway.assert_every_cycle_once(dropped=hello_of(tmp_path / "port").dropped)


@pytest.mark.parametrize("kind", ["host", "mps2-an385"])
def test_an_agent_that_is_killed_before_it_commits_leaves_the_readings_with_the_device(
    tmp_path: Path, firmware_folder: Path, kind: str
) -> None:
    """Whatever had been acknowledged before its commit would be gone from both sides."""
    firmware = build_firmware(kind, firmware_folder)
    board = HostBoard(firmware) if kind == "host" else QemuBoard(firmware, tmp_path)
    with plugged(board, tmp_path):
        gateway = gateway_of(tmp_path, 200)
        config = gateway.agent.config
        prompt = config.read_text()
        config.write_text(prompt.replace("commit_interval_s = 0.05", "commit_interval_s = 3600"))

        def scene() -> None:
            gateway.wait_for_cycles(1)  # the first are committed at once
            gateway.wait_for_samples(15)

        run_and_kill_agent(gateway, scene)
        assert len(gateway.cycles()) < gateway.counters()["records"], "some came and were not committed"
        config.write_text(prompt)
        run_agent(gateway, lambda: gateway.wait_for_cycles(10))
        gateway.assert_every_cycle_once(dropped=hello_of(tmp_path / "port").dropped)


def test_a_new_configuration_of_the_driver_costs_no_reading(tmp_path: Path, qemu_firmware: Path) -> None:
    with plugged(QemuBoard(qemu_firmware, tmp_path), tmp_path):
        gateway = gateway_of(tmp_path, 100)
        config = gateway.agent.config
        with gateway.agent.start() as process:
            for number in range(1, 4):
                gateway.wait_for_cycles(3)
                config.write_text(re.sub(r"silence_s = .*", f"silence_s = {number}.5", config.read_text()))
                process.send_signal(signal.SIGHUP)
                gateway.wait_for_log("new configuration in use", number)
            gateway.wait_for_cycles(3)
            process.terminate()
            assert process.wait(PATIENCE_S) == 0
        gateway.assert_every_cycle_once(dropped=hello_of(tmp_path / "port").dropped)


def test_with_a_key_on_both_sides_readings_arrive_and_without_it_none(
    tmp_path: Path, qemu_firmware_with_key: Path
) -> None:
    key_file = tmp_path / "link.key"
    key_file.write_text(KEY.hex())
    key_file.chmod(0o600)
    with plugged(QemuBoard(qemu_firmware_with_key, tmp_path), tmp_path) as cable:
        assert command(tmp_path / "port", "interval_ms", 50, key_file).status == 0
        gateway = Gateway.make(tmp_path / "gateway", tmp_path / "port")
        run_agent(gateway, lambda: gateway.wait_for_log("requires a key; set key_file"))
        assert gateway.cycles() == []
        config = gateway.agent.config
        config.write_text(config.read_text().replace("silence_s", f'key_file = "{key_file}"\nsilence_s'))
        cable.set_faults(DAMAGED)
        run_agent(gateway, lambda: gateway.wait_for_cycles(50))
        cable.set_faults(CLEAN)
        gateway.assert_every_cycle_once(dropped=hello_of(tmp_path / "port", key_file).dropped)
