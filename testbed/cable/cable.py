"""A simulated cable between a serial port of the host and a device: firmware in QEMU, or built for this machine.

    driver ── /link ── pty ──┤ to_device: spoil, pace ├──► far end (a socket)
                             ├◄ to_host:  spoil, pace ┤

A thread moves the bytes. What a side does not take is lost, as on a line without flow control; nobody is held up.
"""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Self

from testbed.cable.line import CLEAN, Faults, LinePace, Spoiler
from testbed.cable.port import PtyPort, wait_until_readable

CHUNK_BYTES: Final = 4096
MAX_WAITING_BYTES: Final = 256 * 1024  # in one direction; beyond it the line loses what comes
SHORTEST_WAIT_S: Final = 0.001


class Cable:
    def __init__(
        self,
        link: Path,
        far_end: socket.socket,
        *,
        baudrate: int | None = None,
        faults: Faults = CLEAN,
        seed: int = 1,
    ) -> None:
        """Plugged in from the start. The far end is closed with the cable."""
        self.port = PtyPort(link)
        self._far_end = far_end
        self._far_end.setblocking(False)
        self._to_host = _Direction(self.port.send, baudrate, faults, seed)
        self._to_device = _Direction(self._send_to_device, baudrate, faults, seed + 1)
        self._lock = threading.Lock()
        self._wake_reading, self._wake = os.pipe()
        os.set_blocking(self._wake_reading, False)
        self._is_far_end_gone = False
        self._is_closing = False
        self._mover = threading.Thread(target=self._move, name=f"cable {link.name}", daemon=True)
        self._mover.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def damaged_bytes(self) -> int:
        return self._to_host.spoiler.damaged_bytes + self._to_device.spoiler.damaged_bytes

    def set_faults(self, faults: Faults, seed: int = 1) -> None:
        with self._changing():
            self._to_host.spoiler = Spoiler(faults, seed)
            self._to_device.spoiler = Spoiler(faults, seed + 1)

    def cut(self, *, to_host: bool = True, to_device: bool = True) -> None:
        """Open these wires; the port stays. With one of them cut, the cable is half open."""
        with self._changing():
            self._to_host.is_cut, self._to_device.is_cut = to_host, to_device

    def mend(self) -> None:
        self.cut(to_host=False, to_device=False)

    def unplug(self) -> None:
        """Disconnect the cable from the host. The device keeps running."""
        with self._changing():
            self.port.unplug()
            self._to_host.forget()
            self._to_device.forget()

    def plug(self, link: Path | None = None) -> None:
        """Under the same name, or another."""
        with self._changing():
            self._to_host.forget()
            self.port.link = link or self.port.link
            self.port.plug()

    def replace_far_end(self, far_end: socket.socket) -> None:
        """Another device, or the same after its power came back."""
        with self._changing():
            self._far_end.close()
            self._far_end = far_end
            self._far_end.setblocking(False)
            self._is_far_end_gone = False
            self._to_host.forget()
            self._to_device.forget()

    def close(self) -> None:
        with self._changing():
            self._is_closing = True
        self._mover.join()
        self.port.unplug()
        self._far_end.close()
        os.close(self._wake_reading)
        os.close(self._wake)

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """What came before the change meets the cable as it was."""
        with self._lock:
            self._move_once()
            yield
        os.write(self._wake, b"!")

    def _move(self) -> None:
        while not self._is_closing:
            with self._lock:
                wait_s = self._move_once()
                watched = [fd for fd in (self._wake_reading, self.port.fd, self._far_end_fd()) if fd is not None]
            wait_until_readable(watched, wait_s)  # one that was closed just now counts; the next round knows
            with contextlib.suppress(BlockingIOError):  # drained here, before looking again whether it is to end
                os.read(self._wake_reading, CHUNK_BYTES)

    def _move_once(self) -> float | None:
        """Take what there is, pass on what is due; how long there is no more to do, None: until something comes."""
        self._to_device.take(self.port.received())
        self._to_host.take(self._receive_from_device())
        now_s = time.monotonic()  # after the bytes were received: none begins before it was sent
        waits_s = [wait_s for each in (self._to_device, self._to_host) if (wait_s := each.pass_on(now_s)) is not None]
        return min(waits_s, default=None)

    def _far_end_fd(self) -> int | None:
        return None if self._is_far_end_gone else self._far_end.fileno()

    def _send_to_device(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # full, or gone: on a line that is a loss
            self._far_end.send(data)

    def _receive_from_device(self) -> bytes:
        try:
            data = self._far_end.recv(CHUNK_BYTES)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        self._is_far_end_gone = not data
        return data


class _Direction:
    """Bytes on their way to one end."""

    def __init__(self, send: Callable[[bytes], object], baudrate: int | None, faults: Faults, seed: int) -> None:
        self.spoiler = Spoiler(faults, seed)
        self.is_cut = False
        self._send = send
        self._pace = LinePace(baudrate)
        self._waiting = bytearray()

    def take(self, data: bytes) -> None:
        if data and not self.is_cut and len(self._waiting) <= MAX_WAITING_BYTES:
            self._waiting += self.spoiler.spoil(data)

    def pass_on(self, now_s: float) -> float | None:
        """Hand over what is through; when to come back, None if nothing waits."""
        count = self._pace.passed(len(self._waiting), now_s)
        if count:
            self._send(bytes(self._waiting[:count]))
            del self._waiting[:count]
        return max(SHORTEST_WAIT_S, self._pace.byte_s) if self._waiting else None

    def forget(self) -> None:
        self._waiting.clear()
