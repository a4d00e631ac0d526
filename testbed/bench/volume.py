"""A disk for one agent that can lose power and fill up like a real one.

It is an ext4 file system in a file, mounted through a loop device. To cut the power, the file system is told to shut
down without flushing (the ioctl that file system developers test recovery with): from that moment nothing reaches the
medium, what was not synced is gone, and the next mount replays the journal as after a real outage. No write is
simulated, and no process knows. It needs root and loop devices; where there are none, `open_volume` says why.
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
        """Nothing more reaches the medium. Whoever writes gets an error."""
        self._has_power = False
        descriptor = os.open(self.mount_point, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.ioctl(descriptor, _SHUT_DOWN, _WITHOUT_FLUSHING)
        finally:
            os.close(descriptor)

    def restore_power(self) -> None:
        """Mount a copy of what the medium holds: the kernel may still know the file system of before as a dead one."""
        self.unmount()
        copy = self._image.with_suffix(".copy")
        _run("cp", "--sparse=always", str(self._image), str(copy))
        copy.replace(self._image)
        self.mount()
        self._has_power = True
        if not self._is_filled:
            self.make_room()

    def unmount(self) -> None:
        """Waits for whoever still has a file open; they were told to go."""
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
        """Take all room but so much. Without power there is no disk to fill."""
        if not self._has_power:
            return
        self._is_filled = True
        descriptor = os.open(self.mount_point / FILLER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            room = os.statvfs(self.mount_point)
            wanted = room.f_bfree * room.f_frsize - leave_bytes
            while wanted > room.f_frsize:
                if _allocate(descriptor, wanted):
                    return
                wanted -= max(room.f_frsize, wanted // 50)  # the file system needs some, or the agent was quicker
        finally:
            os.close(descriptor)

    def make_room(self) -> None:
        """A power cut may undo it, or be in the way of it: then it is done when power is back."""
        self._is_filled = False
        with contextlib.suppress(OSError):
            (self.mount_point / FILLER).unlink()


def open_volume(folder: Path, megabytes: int) -> Volume:
    """New, empty and mounted. Raises: BenchError where this machine does not allow it."""
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
