"""The example firmware, built once."""

from pathlib import Path

import pytest

from testbed.microcontroller import build_firmware

KEY = bytes(range(32))


@pytest.fixture(scope="session")
def firmware_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("firmware")


@pytest.fixture(scope="session")
def host_firmware(firmware_folder: Path) -> Path:
    return build_firmware("host", firmware_folder)


@pytest.fixture(scope="session")
def qemu_firmware(firmware_folder: Path) -> Path:
    return build_firmware("mps2-an385", firmware_folder)


@pytest.fixture(scope="session")
def qemu_firmware_with_key(firmware_folder: Path) -> Path:
    return build_firmware("mps2-an385", firmware_folder / "with_key", KEY=KEY.hex())
