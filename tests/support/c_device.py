"""The C library, built for this machine and called through ctypes: its pieces, and a whole device."""

import ctypes
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

LIBRARY = Path(__file__).parents[2] / "firmware_bridge" / "c"
OUTPUT_BYTES = 65536
NO_VALUE = -(2**31)
OK, FULL, BAD_ARGUMENT, DOWN = 0, -1, -2, -3
WITH_AUTH, WITH_UPDATE = "-DHG_WITH_AUTH=1", "-DHG_WITH_UPDATE=1"
WARNINGS = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Werror"]


class CSample(ctypes.Structure):
    _fields_ = [("sensor", ctypes.c_uint8), ("value", ctypes.c_int32)]


def build_library(directory: Path, *options: str) -> ctypes.CDLL:
    """Options are those of headgate_link.h, as -D…"""
    built = directory / "device.so"
    names = ["headgate_link.c", "hg_sending.c", "hg_wire.c"]
    names += ["hg_proof.c", "hg_blake2s.c"] if WITH_AUTH in options else []
    sources = [*(str(LIBRARY / name) for name in names), str(Path(__file__).with_name("c_device.c"))]
    command = ["gcc", *WARNINGS, "-O1", "-g", "-shared", "-fPIC", f"-I{LIBRARY}", *options, *sources, "-o", str(built)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    library = ctypes.CDLL(str(built))
    library.device_new.restype = ctypes.c_void_p
    library.hg_crc32.restype = ctypes.c_uint32
    for name in ("hg_cobs_encode", "hg_cobs_decode", "device_take_output"):
        getattr(library, name).restype = ctypes.c_size_t
    for name in ("device_is_up", "device_is_idle"):
        getattr(library, name).restype = ctypes.c_bool
    return library


class CDevice:
    """A device that runs the C library. Time stands still unless it is set."""

    def __init__(self, library: ctypes.CDLL, handle: int) -> None:
        self._library = library
        self._handle = ctypes.c_void_p(handle)

    @property
    def executed(self) -> int:
        return int(self._library.device_executed(self._handle))

    def is_up(self) -> bool:
        return bool(self._library.device_is_up(self._handle))

    def is_idle(self) -> bool:
        return bool(self._library.device_is_idle(self._handle))

    def set_now(self, now_ms: int) -> None:
        self._library.device_set_now(self._handle, ctypes.c_uint32(now_ms % 2**32))

    def set_room(self, room_bytes: int) -> None:
        """How much the line takes before it is full."""
        self._library.device_set_room(self._handle, ctypes.c_size_t(room_bytes))

    def receive(self, data: bytes) -> None:
        self._library.device_receive(self._handle, data, ctypes.c_size_t(len(data)))

    def record(self, samples: Sequence[tuple[int, int | None]]) -> int:
        array = (CSample * len(samples))(*(CSample(sensor, _value(value)) for sensor, value in samples))
        return int(self._library.device_record(self._handle, array, ctypes.c_size_t(len(samples))))

    def log(self, level: int, text: str) -> int:
        return int(self._library.device_log(self._handle, level, text.encode()))

    def poll(self) -> bytes:
        """What the device has to say, after it was given the chance to."""
        self._library.device_poll(self._handle)
        output = ctypes.create_string_buffer(OUTPUT_BYTES)
        size = self._library.device_take_output(self._handle, output)
        return output.raw[:size]


def _value(value: int | None) -> int:
    return NO_VALUE if value is None else value


@contextmanager
def running(library: ctypes.CDLL, *, boot_id: bytes, key: bytes | None = None) -> Iterator[CDevice]:
    handle = library.device_new(boot_id, key)
    assert handle, "the device does not start"
    try:
        yield CDevice(library, handle)
    finally:
        library.device_free(ctypes.c_void_p(handle))
