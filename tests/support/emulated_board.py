"""An mps2-an385 in QEMU with a boot loader and flash that outlives the power, behind a cable."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from protocol.firmware import Package, slot_bytes
from testbed.cable import Cable
from tests.support.firmware_samples import BUILDER_KEY, package
from tests.support.qemu_board import QemuBoard

ROOT: Final = Path(__file__).parents[2]
BOOT: Final = ROOT / "firmware_bridge" / "c" / "boot"
BOARD: Final = "mps2-an385"
TRIAL_S: Final = 4  # what the watchdog gives firmware on trial, three times
FLASH_BYTES: Final = 16 << 20
SLOT_OFFSET: Final = 0x10000
SECTOR_BYTES: Final = 4096


@dataclass(frozen=True)
class Builds:
    """What the compiler made, and where the keys are."""

    folder: Path

    @property
    def boot_loader(self) -> Path:
        return self.folder / "boot_loader.elf"

    @property
    def public_key(self) -> Path:
        return self.folder / "builder.pub"

    def firmware(self, version: str, *, counter: int = 1, extra_bytes: int = 0) -> Package:
        """The example application, with something behind it that takes time to send."""
        image = (self.folder / f"firmware-{version}.bin").read_bytes()
        return package(image + os.urandom(extra_bytes), board=BOARD, version=version, counter=counter)

    def hanging(self, version: str) -> Package:
        return package((self.folder / "hanging.bin").read_bytes(), board=BOARD, version=version)


def build_firmware(folder: Path, *versions: str, link_key: bytes = b"") -> Builds:
    builds = Builds(folder)
    builds.public_key.write_text(BUILDER_KEY.hex() + "\n")
    options = [f"KEYS={builds.public_key}", f"BUILD={folder}", f"TRIAL_S={TRIAL_S}"]
    options += [f"LINK_KEY={link_key.hex()}"] if link_key else []
    _run("make", "-s", "-C", str(BOOT), *options, "boot-loader")
    for version in versions:
        _run("make", "-s", "-C", str(BOOT), *options, f"VERSION={version}", "firmware")
    _build_hanging(folder)
    return builds


def _build_hanging(folder: Path) -> None:
    script, elf = folder / "hanging.ld", folder / "hanging.elf"
    boot_loaders = (BOOT / "mps2_an385" / "boot_loader.ld").read_text()
    script.write_text(boot_loaders.replace("ORIGIN = 0x00000000", "ORIGIN = 0x00010000"))
    processor = ["-mcpu=cortex-m3", "-mthumb", "-ffreestanding", "-nostdlib", "-nostartfiles", "-Wl,-e,0x10000"]
    source = Path(__file__).with_name("hanging.c")
    _run("arm-none-eabi-gcc", "-std=c99", "-Os", *processor, str(source), "-T", str(script), "-o", str(elf))
    _run("arm-none-eabi-objcopy", "-O", "binary", str(elf), str(folder / "hanging.bin"))


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class FlashedBoard:
    """On from the start. `cut_power` leaves flash as it is at that moment."""

    def __init__(self, folder: Path, boot_loader: Path, factory: Package) -> None:
        self.port = folder / "ttyBOARD"
        self._folder = folder
        self._boot_loader = boot_loader
        self._flash = folder / "flash.bin"
        self._flash.write_bytes(b"\xff" * SLOT_OFFSET + slot_bytes(factory, sector_bytes=SECTOR_BYTES))
        os.truncate(self._flash, FLASH_BYTES)
        self._board = self._start()
        self.cable = Cable(self.port, self._board.uart)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cable.close()
        self._board.kill()

    def cut_power(self) -> None:
        self._board.kill()

    def power_on(self) -> None:
        self._board = self._start()
        self.cable.replace_device(self._board.uart)

    def _start(self) -> QemuBoard:
        flash = f"memory-backend-file,id=mps.ram,size={FLASH_BYTES},mem-path={self._flash},share=on"
        return QemuBoard(self._boot_loader, self._folder, "-machine", "memory-backend=mps.ram", "-object", flash)
