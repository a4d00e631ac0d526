"""A disk for one agent that can lose power and fill up like a real one.

It is an ext4 file system in a file, mounted through a loop device. To cut the power, the file system is shut down
without flushing (by the ioctl that file system developers test recovery with): from then on nothing reaches the medium,
unsynced data is lost, and the next mount replays the journal as after a real outage. No write is simulated.

It needs root and loop devices; without them, `open_volume` raises an error with the reason.
"""

import contextlib
import fcntl
import os
import shutil
import struct
import subprocess
import time
from pathlib import Path
from typing import Final

from testbed.errors import BenchError

_SHUT_DOWN: Final = 0x8004587D  # EXT4_IOC_SHUTDOWN, _IOR('X', 125, u32)
_WITHOUT_FLUSHING: Final = struct.pack("I", 2)  # EXT4_GOING_FLAGS_NOLOGFLUSH
UNMOUNT_ATTEMPTS: Final = 50
UNMOUNT_WAIT_S: Final = 0.1
FILLER: Final = ".filler"


class Volume:
    def __init__(self, image: Path, mount_point: Path) -> None:
        self.mount_point = mount_point
        self._image = image
        self._is_mounted = False
        self._has_power = True
        self._is_filled = False

    def mount(self) -> None:
        if not self._is_mounted:
            _run("mount", "-o", "loop,nosuid,nodev", str(self._image), str(self.mount_point))
            self._is_mounted = True

    def cut_power(self) -> None:
        """From now on nothing reaches the medium, and writes fail."""
        self._has_power = False
        descriptor = os.open(self.mount_point, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.ioctl(descriptor, _SHUT_DOWN, _WITHOUT_FLUSHING)
        finally:
            os.close(descriptor)

    def restore_power(self) -> None:
        """Mount a copy of the medium: the kernel may still regard the previous file system as shut down."""
        self.unmount()
        copy = self._image.with_suffix(".copy")
        _run("cp", "--sparse=always", str(self._image), str(copy))
        copy.replace(self._image)
        self.mount()
        self._has_power = True
        if not self._is_filled:
            self.free_space()

    def unmount(self) -> None:
        """Unmount, after waiting for processes that still have a file open."""
        for _ in range(UNMOUNT_ATTEMPTS):
            if not self._is_mounted:
                return
            with contextlib.suppress(BenchError):
                _run("umount", str(self.mount_point))
                self._is_mounted = False
                return
            time.sleep(UNMOUNT_WAIT_S)
        raise BenchError(f"{self.mount_point} cannot be unmounted; a process still uses it")

    def fill(self, leave_bytes: int) -> None:
        """Use all space except `leave_bytes`. Without power nothing happens."""
        if not self._has_power:
            return
        self._is_filled = True
        descriptor = os.open(self.mount_point / FILLER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            space = os.statvfs(self.mount_point)
            wanted = space.f_bfree * space.f_frsize - leave_bytes
            while wanted > space.f_frsize:
                if _allocate(descriptor, wanted):
                    return
                wanted -= max(space.f_frsize, wanted // 50)  # the file system needs some, or the agent has used some
        finally:
            os.close(descriptor)

    def free_space(self) -> None:
        """Remove the filler. If a power cut prevents or reverts that, it happens again when power is back."""
        self._is_filled = False
        with contextlib.suppress(OSError):
            (self.mount_point / FILLER).unlink()


def open_volume(folder: Path, megabytes: int) -> Volume:
    """Create, format and mount a volume. Raises: BenchError if this machine does not allow it."""
    if os.geteuid() != 0:
        raise BenchError("mounting needs root")
    if shutil.which("mkfs.ext4") is None:
        raise BenchError("mkfs.ext4 is missing; apt-get install e2fsprogs")
    image, mount_point = folder / "disk.img", folder / "disk"
    with image.open("wb") as file:
        file.truncate(megabytes << 20)
    _run("mkfs.ext4", "-q", "-m", "0", "-E", "nodiscard", str(image))
    mount_point.mkdir()
    volume = Volume(image, mount_point)
    volume.mount()
    return volume


def _allocate(descriptor: int, count: int) -> bool:
    try:
        os.posix_fallocate(descriptor, 0, count)
    except OSError:
        return False
    return True


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise BenchError(f"{command[0]} is missing") from None
    if done.returncode != 0:
        raise BenchError(f"{' '.join(command)}: {done.stderr.strip()}")
