"""A serial port or a TCP connection as a source of bytes on the event loop. No threads."""

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from typing import Final, Literal

from drivers.errors import DeviceError
from runtime.errors import connection_error_text
from runtime.token_bucket import TokenBucket

CHUNK_BYTES: Final = 4096
CONNECT_TIMEOUT_S: Final = 10.0
WRITE_TIMEOUT_S: Final = 5.0


class ByteSource:
    """An open, non-blocking file descriptor. Every failure is a `DeviceError` that names the port."""

    def __init__(self, fd: int, where: str, on_close: Callable[[], object]) -> None:
        self.where = where
        self._fd = fd
        self._on_close = on_close
        self._waiting: dict[asyncio.Future[None], Callable[[int], bool]] = {}  # with the function that ends the wait

    async def read(self, timeout_s: float) -> bytes:
        """At least one byte, at most `CHUNK_BYTES`; b"" if none arrived in time. Raises: DeviceError."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._ready(asyncio.get_running_loop().add_reader, asyncio.get_running_loop().remove_reader)
            data = os.read(self._fd, CHUNK_BYTES)
        except (TimeoutError, BlockingIOError):
            return b""
        except OSError as error:
            raise DeviceError(f"{self.where} is gone ({_reason(error)}); check that it is plugged in") from error
        if not data:
            raise DeviceError(f"{self.where} is gone (end of data); check that it is plugged in")
        return data

    async def write(self, data: bytes) -> None:
        """Raises: DeviceError."""
        try:
            async with asyncio.timeout(WRITE_TIMEOUT_S):
                while data:
                    await self._ready(asyncio.get_running_loop().add_writer, asyncio.get_running_loop().remove_writer)
                    data = data[os.write(self._fd, data) :]
        except TimeoutError as error:
            raise DeviceError(f"{self.where} accepts no data; check its flow control") from error
        except OSError as error:
            raise DeviceError(f"{self.where} is gone ({_reason(error)}); check that it is plugged in") from error

    def close(self) -> None:
        """Pending waits fail. The descriptor leaves the event loop first: its number may be reused at once."""
        if self._fd < 0:
            return
        fd, self._fd = self._fd, -1
        for ready, remove in self._waiting.items():
            remove(fd)
            if not ready.done():
                ready.set_exception(OSError("it was closed"))
        self._waiting.clear()
        self._on_close()

    async def _ready(self, add: Callable[..., None], remove: Callable[[int], bool]) -> None:
        """Wait until the descriptor can be read or written. Raises: OSError once it is closed."""
        if self._fd < 0:
            raise OSError("it was closed")
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        add(self._fd, lambda: None if ready.done() else ready.set_result(None))
        self._waiting[ready] = remove
        try:
            await ready
        finally:
            if self._waiting.pop(ready, None) is not None:
                remove(self._fd)


def open_serial(
    device: str,
    *,
    baudrate: int,
    bytesize: int = 8,
    parity: Literal["N", "E", "O"] = "N",
    stopbits: float = 1,
) -> ByteSource:
    """Open for exclusive use. Raises: DeviceError."""
    import serial

    try:
        port = serial.Serial(
            device,
            baudrate=baudrate,
            bytesize=bytesize,
            parity=parity,
            stopbits=stopbits,
            timeout=0,
            exclusive=True,
        )
    except (OSError, ValueError) as error:  # SerialException is an OSError
        raise DeviceError(f"{device} does not open ({_reason(error)}); {_advice(error)}") from error
    return ByteSource(port.fileno(), device, port.close)


async def open_tcp(host: str, port: int) -> ByteSource:
    """Connect to the first address that responds. Raises: DeviceError."""
    url = f"tcp://{host}:{port}"
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            connection = await _connect(host, port)
    except (OSError, TimeoutError, UnicodeError) as error:  # the last: not a host name
        reason = connection_error_text(error, host)
        raise DeviceError(f"{url} does not answer ({reason}); check address and network") from error
    return ByteSource(connection.fileno(), url, connection.close)


async def _connect(host: str, port: int) -> socket.socket:
    """Raises: OSError of the last address that was tried."""
    loop = asyncio.get_running_loop()
    failure = OSError("it has no address")
    for family, kind, protocol, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        connection = socket.socket(family, kind, protocol)
        connection.setblocking(False)
        try:
            await loop.sock_connect(connection, address)
        except OSError as error:
            connection.close()
            failure = error
        except BaseException:  # cancelled
            connection.close()
            raise
        else:
            return connection
    raise failure


def _reason(error: Exception) -> str:
    number = getattr(error, "errno", None)
    return os.strerror(number) if isinstance(number, int) and number > 0 else str(error)


def _advice(error: Exception) -> str:
    match getattr(error, "errno", None):
        case errno.ENOENT | errno.ENODEV | errno.ENXIO:
            return "check that it is plugged in; 'headgate devices' lists attached devices"
        case errno.EACCES | errno.EPERM:
            return "add the user of this process to the group of that file, often dialout"
        case errno.EBUSY | errno.EAGAIN:
            return "another program has it open; stop that program"
        case _:
            return "check the port and its settings"


class Throttle:
    """Limits a port to a rate in bytes per second, with a burst of one second."""

    def __init__(self, bytes_per_s: int) -> None:
        self._bucket = TokenBucket(bytes_per_s, burst=bytes_per_s)
        self._normal_level = bytes_per_s / 2
        self.flooded = False

    def pause_s(self, read_bytes: int, now_s: float) -> float:
        """How long to pause after reading this many bytes. Data that arrives meanwhile waits in the kernel's buffer."""
        pause_s = self._bucket.take(read_bytes, now_s)
        if pause_s > 0:
            self.flooded = True
        elif self._bucket.level(now_s) > self._normal_level:
            self.flooded = False
        return pause_s
