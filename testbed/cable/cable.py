"""A simulated cable between a serial port of the host and a device: firmware in QEMU, or built for this machine.

    driver ── /link ── pty ──┤ to_device: spoil, pace ├──► device (a socket)
                             ├◄ to_host:  spoil, pace ┤

A thread moves the bytes. Bytes that a side does not read in time are lost, as on a line without flow control.
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
MAX_WAITING_BYTES: Final = 256 * 1024  # in one direction; beyond it, bytes are lost
SHORTEST_WAIT_S: Final = 0.001


class Cable:
    def __init__(
        self,
        link: Path,
        device: socket.socket,
        *,
        baudrate: int | None = None,
        faults: Faults = CLEAN,
        seed: int = 1,
    ) -> None:
        """Plugged in from the start. The socket of the device is closed with the cable."""
        self.port = PtyPort(link)
        self._device = device
        self._device.setblocking(False)
        self._to_host = _Direction(self.port.send, baudrate, faults, seed)
        self._to_device = _Direction(self._send_to_device, baudrate, faults, seed + 1)
        self._lock = threading.Lock()
        self._wake_reading, self._wake = os.pipe()
        os.set_blocking(self._wake_reading, False)
        self._is_device_gone = False
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

    def repair(self) -> None:
        self.cut(to_host=False, to_device=False)

    def unplug(self) -> None:
        """Disconnect the cable from the host. The device keeps running."""
        with self._changing():
            self.port.unplug()
            self._to_host.clear()
            self._to_device.clear()

    def plug(self, link: Path | None = None) -> None:
        """Connect the cable to the host again, under the same device name or another."""
        with self._changing():
            self._to_host.clear()
            self.port.link = link or self.port.link
            self.port.plug()

    def replace_device(self, device: socket.socket) -> None:
        """Connect another device, or the same one after a restart."""
        with self._changing():
            self._device.close()
            self._device = device
            self._device.setblocking(False)
            self._is_device_gone = False
            self._to_host.clear()
            self._to_device.clear()

    def close(self) -> None:
        with self._changing():
            self._is_closing = True
        self._mover.join()
        self.port.unplug()
        self._device.close()
        os.close(self._wake_reading)
        os.close(self._wake)

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """Move the bytes that came before the change first, with the cable as it was."""
        with self._lock:
            self._move_once()
            yield
        os.write(self._wake, b"!")

    def _move(self) -> None:
        while not self._is_closing:
            with self._lock:
                wait_s = self._move_once()
                watched = [fd for fd in (self._wake_reading, self.port.fd, self._device_fd()) if fd is not None]
            wait_until_readable(watched, wait_s)  # a descriptor that was just closed counts as readable
            with contextlib.suppress(BlockingIOError):  # drained before `_is_closing` is read again
                os.read(self._wake_reading, CHUNK_BYTES)

    def _move_once(self) -> float | None:
        """Receive bytes, and send those that are due. Returns the seconds until more are due, None if none wait."""
        self._to_device.add(self.port.received())
        self._to_host.add(self._receive_from_device())
        now_s = time.monotonic()  # after the bytes were received: none begins before it was sent
        waits_s = [wait_s for each in (self._to_device, self._to_host) if (wait_s := each.send_due(now_s)) is not None]
        return min(waits_s, default=None)

    def _device_fd(self) -> int | None:
        return None if self._is_device_gone else self._device.fileno()

    def _send_to_device(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # full, or gone: on a line that is a loss
            self._device.send(data)

    def _receive_from_device(self) -> bytes:
        try:
            data = self._device.recv(CHUNK_BYTES)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        self._is_device_gone = not data
        return data


class _Direction:
    """The bytes in flight to one end."""

    def __init__(self, send: Callable[[bytes], object], baudrate: int | None, faults: Faults, seed: int) -> None:
        self.spoiler = Spoiler(faults, seed)
        self.is_cut = False
        self._send = send
        self._pace = LinePace(baudrate)
        self._waiting = bytearray()

    def add(self, data: bytes) -> None:
        if data and not self.is_cut and len(self._waiting) <= MAX_WAITING_BYTES:
            self._waiting += self.spoiler.spoil(data)

    def send_due(self, now_s: float) -> float | None:
        """Send the bytes that are through. Returns the seconds until the next is, None if none wait."""
        count = self._pace.passed(len(self._waiting), now_s)
        if count:
            self._send(bytes(self._waiting[:count]))
            del self._waiting[:count]
        return max(SHORTEST_WAIT_S, self._pace.byte_s) if self._waiting else None

    def clear(self) -> None:
        self._waiting.clear()
