"""Measures the bytes that reach a device: an ext4 file system on a loop device, counted by the kernel.

Without the right to mount, a directory is used, and the write-back of this process is counted. That misses the journal
of the file system, and the note of each figure says so.
"""

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

DEVICE_BYTES = 1 << 30
SECTOR_BYTES = 512
SECTORS_WRITTEN = 6  # field of /sys/block/*/stat


class Device:
    def __init__(self, directory: Path, statistics: Path | None) -> None:
        self._directory = directory
        self._statistics = statistics
        self._number = 0

    @property
    def method(self) -> str:
        return "ext4 on a loop device" if self._statistics else "write-back of this process; without the fs journal"

    def new_directory(self) -> Path:
        self._number += 1
        directory = self._directory / str(self._number)
        directory.mkdir()
        return directory

    def written_bytes(self) -> int:
        """The bytes written so far, after a sync."""
        subprocess.run(["sync", "--file-system", str(self._directory)], check=True)
        if self._statistics is not None:
            return int(self._statistics.read_text().split()[SECTORS_WRITTEN]) * SECTOR_BYTES
        lines = Path("/proc/self/io").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("write_bytes"))


@contextlib.contextmanager
def small_device() -> Iterator[Device]:
    """A new file system of one gigabyte, or a directory if that cannot be mounted."""
    with tempfile.TemporaryDirectory(prefix="bench-device-") as name:
        root = Path(name)
        loop = _mount(root / "image", root / "mounted")
        if loop is None:
            yield Device(root, None)
            return
        try:
            yield Device(root / "mounted", Path("/sys/block") / Path(loop).name / "stat")
        finally:
            subprocess.run(["umount", "--lazy", str(root / "mounted")], check=True)
            subprocess.run(["losetup", "--detach", loop], check=True)


def _mount(image: Path, directory: Path) -> str | None:
    """The loop device, or None if this machine does not allow one."""
    directory.mkdir()
    with image.open("wb") as file:
        file.truncate(DEVICE_BYTES)
    with contextlib.suppress(FileNotFoundError, subprocess.CalledProcessError):
        _run("mkfs.ext4", "-q", "-F", str(image))
        loop = _run("losetup", "--find", "--show", str(image)).strip()
        try:
            _run("mount", loop, str(directory))
        except subprocess.CalledProcessError:
            _run("losetup", "--detach", loop)
            return None
        return loop
    return None


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
