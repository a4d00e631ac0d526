"""Serial ports made of ptys: one end is a device file for a driver, the other is controlled by the testbed."""

import math
import os
import select
import tty
from collections.abc import Iterable
from pathlib import Path


def wait_until_readable(descriptors: Iterable[int], timeout_s: float | None = None) -> list[int]:
    """The descriptors that have bytes to read, are at their end or closed; none after the timeout."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(None if timeout_s is None else math.ceil(timeout_s * 1000))]


class PtyPort:
    """A serial port with a stable name that can be unplugged and plugged in again."""

    def __init__(self, link: Path) -> None:
        self.link = link
        self._fds: tuple[int, int] | None = None
        self.plug()

    def plug(self) -> None:
        if self._fds is None:
            ours, theirs = os.openpty()
            tty.setraw(theirs)
            os.set_blocking(ours, False)
            self._fds = (ours, theirs)
            self.link.symlink_to(os.ttyname(theirs))

    def unplug(self) -> None:
        """Closes the pty: a program that has it open sees a hang-up."""
        if self._fds is not None:
            self.link.unlink()
            for fd in self._fds:
                os.close(fd)
            self._fds = None

    @property
    def fd(self) -> int | None:
        """The descriptor of our end; None while unplugged."""
        return self._fds[0] if self._fds else None

    def send(self, data: bytes) -> int:
        """Send without blocking. Returns the number of bytes sent, 0 while unplugged."""
        try:
            return os.write(self._fds[0], data) if self._fds else 0
        except BlockingIOError:
            return 0

    def received(self) -> bytes:
        try:
            return os.read(self._fds[0], 4096) if self._fds else b""
        except BlockingIOError:
            return b""
