"""Firmware updates of real Cortex-M code in QEMU, over a cable: good, tampered, foreign, old, cut, and hanging ones."""

import asyncio
import dataclasses
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.operator.firmware_devices import LineSettings, open_directly
from firmware_bridge import CommandRejected, DeviceLink, UpdateReport, UpdateResult, update_firmware
from protocol.firmware import Package
from protocol.link import Hello, Message, UpdateConfirm, UpdateEnd
from testbed.cable import Faults
from tests.support.emulated_board import BOARD, Builds, FlashedBoard, build_firmware
from tests.support.firmware_gateway import Gateway, run_agent
from tests.support.firmware_samples import UNKNOWN, package
from tests.support.patience import PATIENCE_S

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs("qemu-system-arm", "qemu-system-arm"),
    pytest.mark.needs("arm-none-eabi-gcc", "gcc-arm-none-eabi"),
]

OLD, NEW = "1.0.0", "1.1.0"
LINE = LineSettings(baudrate=115_200, key_file=None)
ANSWER_S = 30.0


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Builds:
    return build_firmware(tmp_path_factory.mktemp("firmware"), OLD, NEW)


@pytest.fixture
def board(builds: Builds, tmp_path: Path) -> Iterator[FlashedBoard]:
    with FlashedBoard(tmp_path, builds.boot_loader, builds.firmware(OLD)) as board:
        yield board


def headgate(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "agent", "firmware", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)


def bring(
    board: FlashedBoard,
    firmware: Package,
    *,
    reached: Callable[[int], None] = lambda _: None,
    through: "type[CuttingLink] | None" = None,
) -> UpdateReport:
    """By the code that the command runs, without its checks of the file."""

    async def update() -> UpdateReport:
        async with open_directly(str(board.port), LINE) as link:
            return await update_firmware(through(link, board) if through else link, firmware, reached=reached)

    return asyncio.run(update())


def running(board: FlashedBoard) -> str:
    async def ask() -> str:
        async with open_directly(str(board.port), LINE) as link:
            return (await link.opened(ANSWER_S)).firmware

    return asyncio.run(ask())


def after_power_cut(board: FlashedBoard) -> str:
    board.cut_power()
    board.power_on()
    return running(board)


class CuttingLink:
    """The power fails just before the image is ended, and again just before it is confirmed."""

    def __init__(self, link: DeviceLink, board: FlashedBoard) -> None:
        self._link = link
        self._board = board
        self._cut_before: set[type[Message]] = {UpdateEnd, UpdateConfirm}

    async def opened(self, timeout_s: float) -> Hello:
        return await self._link.opened(timeout_s)

    async def ask(self, message: Message, patience_s: float) -> Message:
        if type(message) in self._cut_before:
            self._cut_before.discard(type(message))
            self._board.cut_power()
            self._board.power_on()
        return await self._link.ask(message, patience_s)


def test_a_good_image_comes_by_the_command_and_stays(board: FlashedBoard, builds: Builds, tmp_path: Path) -> None:
    file, port = tmp_path / "new.hgfw", str(board.port)
    file.write_bytes(builds.firmware(NEW).to_bytes())
    assert headgate("list", "--port", port).stdout == f"{port}  {BOARD}  {OLD}  ready for an update\n"
    update = ["update", str(file), "--port", port, "--trust", str(builds.public_key)]
    done = headgate(*update)
    assert (done.stdout, done.returncode) == (f"{BOARD}: {OLD} → {NEW}, confirmed\n", 0), done.stderr
    assert headgate(*update).stdout == f"{BOARD}: already runs {NEW}\n"
    assert after_power_cut(board) == NEW


def test_a_good_image_comes_while_the_agent_reads_the_device(
    board: FlashedBoard, builds: Builds, tmp_path: Path
) -> None:
    """The agent shares its link; to it the update is a reset of the device."""
    file, port = tmp_path / "new.hgfw", str(board.port)
    file.write_bytes(builds.firmware(NEW).to_bytes())
    gateway = Gateway.make(tmp_path / "gateway", board.port)
    config = ("--config", str(gateway.agent.config), "--port", port)

    def scene() -> None:
        gateway.wait_for_log("microcontroller connected")
        assert headgate("list", *config).stdout == f"{port}  {BOARD}  {OLD}  ready for an update\n"
        done = headgate("update", str(file), *config, "--trust", str(builds.public_key))
        assert (done.stdout, done.returncode) == (f"{BOARD}: {OLD} → {NEW}, confirmed\n", 0), done.stderr
        gateway.wait_for_log("microcontroller connected", 2)
        assert headgate("list", *config).stdout == f"{port}  {BOARD}  {NEW}  ready for an update\n"

    run_agent(gateway, scene)
    assert after_power_cut(board) == NEW


def test_a_tampered_image_is_refused_by_the_command_and_by_the_device(
    board: FlashedBoard, builds: Builds, tmp_path: Path
) -> None:
    good, file = builds.firmware(NEW), tmp_path / "tampered.hgfw"
    tampered = bytearray(good.image)
    tampered[len(tampered) // 2] ^= 1
    file.write_bytes(good.head() + tampered)
    done = headgate("update", str(file), "--port", str(board.port), "--trust", str(builds.public_key))
    assert (done.returncode, "their digests differ" in done.stderr) == (65, True)
    unchecked = dataclasses.replace(good)
    object.__setattr__(unchecked, "image", bytes(tampered))
    with pytest.raises(CommandRejected, match="not the manifest's"):
        bring(board, unchecked)
    assert after_power_cut(board) == OLD


def test_firmware_of_a_stranger_is_refused_by_the_command_and_by_the_device(
    board: FlashedBoard, builds: Builds, tmp_path: Path
) -> None:
    foreign, file = package(builds.firmware(NEW).image, board=BOARD, version=NEW, by=UNKNOWN), tmp_path / "x.hgfw"
    file.write_bytes(foreign.to_bytes())
    done = headgate("update", str(file), "--port", str(board.port), "--trust", str(builds.public_key))
    assert (done.returncode, "not signed by any trusted key" in done.stderr) == (1, True)
    with pytest.raises(CommandRejected, match="not one of the device's"):
        bring(board, foreign)
    assert after_power_cut(board) == OLD


def test_firmware_for_another_board_and_older_firmware_are_refused(board: FlashedBoard, builds: Builds) -> None:
    with pytest.raises(CommandRejected, match="another board"):
        bring(board, package(builds.firmware(NEW).image, board="mps2-an511", version=NEW))
    assert bring(board, builds.firmware(NEW, counter=2)).result is UpdateResult.CONFIRMED
    with pytest.raises(CommandRejected, match="lower counters are refused"):
        bring(board, builds.firmware(OLD, counter=1))
    assert after_power_cut(board) == NEW


def test_power_that_fails_again_and_again_in_the_middle_only_delays_the_update(
    board: FlashedBoard, builds: Builds
) -> None:
    firmware = builds.firmware(NEW, extra_bytes=60_000)
    cuts = iter([1, 9_000, 30_000, 62_000, len(firmware.image)])
    next_cut = next(cuts)
    restarted_with = []

    def cut_power(offset: int) -> None:
        nonlocal next_cut
        if offset >= next_cut:
            next_cut = next(cuts, sys.maxsize)
            board.cut_power()
            board.power_on()
            restarted_with.append(offset)

    report = bring(board, firmware, reached=cut_power, through=CuttingLink)
    assert report.result is UpdateResult.CONFIRMED
    assert len(restarted_with) == 5
    assert report.sent_bytes < len(firmware.image) + 5 * 8192, "it goes on, and does not begin anew"
    assert after_power_cut(board) == NEW


def test_an_update_that_was_left_alone_is_taken_up_by_the_next_one(board: FlashedBoard, builds: Builds) -> None:
    firmware = builds.firmware(NEW, extra_bytes=30_000)

    def give_up(offset: int) -> None:
        if offset > 20_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bring(board, firmware, reached=give_up)
    assert after_power_cut(board) == OLD
    report = bring(board, firmware)
    assert report.result is UpdateResult.CONFIRMED
    assert report.sent_bytes < len(firmware.image) - 12_000, "what had arrived is not sent again"


def test_an_image_that_does_not_start_is_given_up_by_the_device_itself(board: FlashedBoard, builds: Builds) -> None:
    report = bring(board, builds.hanging("1.2.0"))
    assert (report.result, report.before, report.after) == (UpdateResult.REVERTED, OLD, OLD)
    assert "did not start and was rolled back" in headgate("list", "--port", str(board.port)).stdout
    assert bring(board, builds.firmware(NEW)).result is UpdateResult.CONFIRMED


def test_a_noisy_line_only_slows_an_update_down(board: FlashedBoard, builds: Builds) -> None:
    board.cable.set_faults(Faults(bit_flips=0.0002, drops=0.0005, garbage=0.0002))
    assert bring(board, builds.firmware(NEW)).result is UpdateResult.CONFIRMED
    assert board.cable.damaged_bytes > 0


def test_a_device_with_a_link_key_is_updated_only_with_that_key(tmp_path: Path) -> None:
    key, file, key_file = bytes(range(32)), tmp_path / "new.hgfw", tmp_path / "link.key"
    builds = build_firmware(tmp_path, OLD, NEW, link_key=key)
    file.write_bytes(builds.firmware(NEW).to_bytes())
    key_file.touch(mode=0o600)
    key_file.write_text(key.hex())
    with FlashedBoard(tmp_path, builds.boot_loader, builds.firmware(OLD)) as board:
        line = ["--port", str(board.port), "--key-file", str(key_file)]
        assert "requires a key" in headgate("list", *line[:2]).stderr
        done = headgate("update", str(file), "--trust", str(builds.public_key), *line)
        assert done.stdout == f"{BOARD}: {OLD} → {NEW}, confirmed\n", done.stderr
