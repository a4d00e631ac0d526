"""Two serial ports made of ptys that are connected to each other."""

import contextlib
import os
import threading
import tty
from collections.abc import Iterator

from testbed.cable.port import wait_until_readable


@contextlib.contextmanager
def joined_ports() -> Iterator[tuple[str, str]]:
    """Two device files that are connected to each other."""
    pairs = [os.openpty() for _ in range(2)]
    for _, theirs in pairs:
        tty.setraw(theirs)
    stop_reading, stop = os.pipe()
    ours = [pair[0] for pair in pairs]
    mover = threading.Thread(target=_move_bytes, args=(*ours, stop_reading))
    mover.start()
    try:
        yield os.ttyname(pairs[0][1]), os.ttyname(pairs[1][1])
    finally:
        os.close(stop)
        mover.join()
        for fd in (*ours, *(theirs for _, theirs in pairs), stop_reading):
            os.close(fd)


def _move_bytes(one: int, other: int, stop: int) -> None:
    while True:
        readable = wait_until_readable([one, other, stop])
        if stop in readable:
            return
        for fd in readable:
            os.write(other if fd == one else one, os.read(fd, 4096))
