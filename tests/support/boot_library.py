"""The boot library's C code, built for this machine and called through ctypes, on flash that can lose power.

The flash is stricter than most: a unit is written once between erasures, only whole units, only inside the slots and
records. A cut in the middle of a write leaves any prefix of it and one unit of nonsense; one in the middle of an erase
leaves every byte as it was, erased or anything else.
"""

import ctypes
import functools
import os
import random
import subprocess
import tempfile
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from protocol.firmware import Package, slot_bytes

SOURCES = Path(__file__).parents[2] / "firmware_bridge" / "c" / "boot"
WARNINGS = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wpedantic", "-Werror"]
UNIT_BYTES = 8
SECTOR_BYTES = 512
SLOT_SECTORS = 6  # the first for head and marks
SLOT_BYTES = SLOT_SECTORS * SECTOR_BYTES
CAPACITY_BYTES = SLOT_BYTES - SECTOR_BYTES
ERASED = 0xFF

_READ = ctypes.CFUNCTYPE(
    ctypes.c_bool, ctypes.c_void_p, ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint8), ctypes.c_size_t
)
_ERASE = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_uint32)


class Status(IntEnum):
    OK = 0
    BAD_MANIFEST = -2
    BAD_SIGNATURE = -3
    OTHER_BOARD = -4
    ROLLED_BACK = -5
    TOO_LARGE = -6
    BAD_DIGEST = -7
    FLASH_FAILED = -8
    OUT_OF_PLACE = -9
    NOT_BEGUN = -10
    ON_TRIAL = -11
    ABSENT = -12


class PowerCut(Exception):
    """The device is off; what is in flash stays."""


class _Flash(ctypes.Structure):
    _fields_ = (
        ("user", ctypes.c_void_p),
        ("read", _READ),
        ("write", _READ),
        ("erase", _ERASE),
        ("sector_bytes", ctypes.c_uint32),
        ("record_address", ctypes.c_uint32 * 2),
        ("slot_address", ctypes.c_uint32 * 2),
        ("slot_bytes", ctypes.c_uint32),
    )


class _Device(ctypes.Structure):
    _fields_ = (
        ("flash", ctypes.POINTER(_Flash)),
        ("board", ctypes.c_char_p),
        ("keys", ctypes.c_char_p),
        ("key_count", ctypes.c_size_t),
    )


class _Record(ctypes.Structure):
    _fields_ = (
        ("sequence", ctypes.c_uint32),
        ("active", ctypes.c_uint8),
        ("trial", ctypes.c_uint8),
        ("attempts_left", ctypes.c_uint8),
        ("last_end", ctypes.c_uint8),
        ("lowest_counter", ctypes.c_uint32),
    )


class _Update(ctypes.Structure):
    _fields_ = (
        ("device", ctypes.POINTER(_Device)),
        ("record", _Record),
        ("size_bytes", ctypes.c_uint32),
        ("next_offset", ctypes.c_uint32),
    )


class _Choice(ctypes.Structure):
    _fields_ = (
        ("slot", ctypes.c_uint),
        ("is_trial", ctypes.c_bool),
        ("image_address", ctypes.c_uint32),
        ("size_bytes", ctypes.c_uint32),
    )


class _Manifest(ctypes.Structure):
    _fields_ = (
        ("board", ctypes.POINTER(ctypes.c_char)),
        ("version", ctypes.POINTER(ctypes.c_char)),
        ("sha512", ctypes.POINTER(ctypes.c_char)),
        ("board_length", ctypes.c_size_t),
        ("version_length", ctypes.c_size_t),
        ("counter", ctypes.c_uint32),
        ("size_bytes", ctypes.c_uint32),
    )


@functools.cache
def library() -> ctypes.CDLL:
    """Built once per process, with checks that end the process. A process that has preloaded the address sanitizer
    names it in BOOT_LIBRARY_CHECKS."""
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "boot.so"
        sanitizers = os.environ.get("BOOT_LIBRARY_CHECKS", "undefined")
        checks = [f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all"]
        sources = sorted(map(str, SOURCES.glob("hg_*.c")))
        subprocess.run(["gcc", *WARNINGS, "-O2", *checks, "-fPIC", "-shared", "-o", str(built), *sources], check=True)
        loaded = ctypes.CDLL(str(built))
    loaded.hg_ed25519_verify.restype = ctypes.c_bool
    return loaded


def ed25519_verify(key: bytes, signature: bytes, message: bytes, *, prefix: bytes = b"") -> bool:
    sizes = ctypes.c_size_t(len(prefix)), ctypes.c_size_t(len(message))
    return bool(library().hg_ed25519_verify(key, signature, prefix, sizes[0], message, sizes[1]))


def sha512(*pieces: bytes) -> bytes:
    state, digest = ctypes.create_string_buffer(256), ctypes.create_string_buffer(64)
    library().hg_sha512_init(state)
    for piece in pieces:
        library().hg_sha512_update(state, piece, ctypes.c_size_t(len(piece)))
    library().hg_sha512_final(state, digest)
    return digest.raw


def parse_manifest(data: bytes) -> tuple[str, str, int, int, bytes] | None:
    """Board, version, counter, size and digest as C reads them, or None if it refuses."""
    found = _Manifest()
    if library().hg_manifest_parse(ctypes.byref(found), data, ctypes.c_size_t(len(data))) != Status.OK:
        return None
    board, version = found.board[: found.board_length], found.version[: found.version_length]
    return board.decode(), version.decode(), found.counter, found.size_bytes, found.sha512[:64]


@dataclass
class SimulatedFlash:
    """Two records of a sector each, then two slots.

    Of its operations, counted from 0 since the last `power_on`, the power fails at `cut_at`; the one at `fail_at` does
    something and then says that it failed, as worn flash does.
    """

    cut_at: int | None = None
    fail_at: int | None = None
    chance: random.Random = field(default_factory=lambda: random.Random(0))
    memory: bytearray = field(default_factory=lambda: bytearray([ERASED]) * (2 * SECTOR_BYTES + 2 * SLOT_BYTES))
    operations: int = 0
    is_off: bool = False

    def install(self, slot: int, package: Package) -> None:
        content = slot_bytes(package, sector_bytes=SECTOR_BYTES)
        start = slot_address(slot)
        self.memory[start : start + len(content)] = content

    def power_on(self, *, cut_at: int | None = None, fail_at: int | None = None) -> None:
        self.is_off, self.operations, self.cut_at, self.fail_at = False, 0, cut_at, fail_at

    def read(self, address: int, length: int) -> bytes:
        assert address + length <= len(self.memory)
        return bytes(self.memory[address : address + length])

    def write(self, address: int, data: bytes) -> bool:
        assert address % UNIT_BYTES == len(data) % UNIT_BYTES == 0, "only whole units are written"
        assert address + len(data) <= len(self.memory)
        if self.is_off:
            return False
        now = self.memory[address : address + len(data)]
        assert set(now) <= {ERASED}, f"a unit at {address:#x} is written twice"
        if self._goes_wrong():
            self._tear_write(address, data)
            return False
        self.memory[address : address + len(data)] = data
        return True

    def erase(self, address: int) -> bool:
        assert address % SECTOR_BYTES == 0
        if self.is_off:
            return False
        if self._goes_wrong():
            self._tear_erase(address)
            return False
        self.memory[address : address + SECTOR_BYTES] = bytes([ERASED]) * SECTOR_BYTES
        return True

    def _goes_wrong(self) -> bool:
        self.is_off = self.operations == self.cut_at
        is_wrong = self.is_off or self.operations == self.fail_at
        self.operations += 1
        return is_wrong

    def _tear_write(self, address: int, data: bytes) -> None:
        whole = self.chance.randrange(0, len(data) // UNIT_BYTES + 1) * UNIT_BYTES
        self.memory[address : address + whole] = data[:whole]
        if whole < len(data):
            torn = bytes(byte | self.chance.randrange(256) for byte in data[whole : whole + UNIT_BYTES])
            self.memory[address + whole : address + whole + UNIT_BYTES] = torn

    def _tear_erase(self, address: int) -> None:
        done = self.chance.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        for place in range(address, address + SECTOR_BYTES):
            if self.chance.random() < done:
                self.memory[place] |= self.chance.choice((ERASED, ERASED, ERASED, self.chance.randrange(256)))


def record_address(place: int) -> int:
    return place * SECTOR_BYTES


def slot_address(slot: int) -> int:
    return 2 * SECTOR_BYTES + slot * SLOT_BYTES


@dataclass(frozen=True)
class Running:
    """What the boot loader chose."""

    image: bytes
    slot: int
    is_trial: bool


class BootableDevice:
    """A device with this flash: its boot loader, and the update code of whatever firmware it runs."""

    def __init__(self, flash: SimulatedFlash, *keys: bytes, board: str = "bench-1") -> None:
        self.flash = flash
        self._callbacks = (_READ(self._read), _READ(self._write), _ERASE(self._erase))
        self._flash = _Flash(
            None,
            *self._callbacks,
            SECTOR_BYTES,
            (ctypes.c_uint32 * 2)(record_address(0), record_address(1)),
            (ctypes.c_uint32 * 2)(slot_address(0), slot_address(1)),
            SLOT_BYTES,
        )
        self._device = _Device(ctypes.pointer(self._flash), board.encode(), b"".join(keys), len(keys))
        self._update = _Update()
        self._fault: BaseException | None = None  # ctypes cannot carry one through C

    def boot(self) -> Running | None:
        """Reset: what runs then. None if nothing may."""
        choice = _Choice()
        status = self._call("hg_boot_choose", ctypes.byref(self._device), ctypes.byref(choice))
        if status != Status.OK:
            return None
        self._call("hg_updater_init", ctypes.byref(self._update), ctypes.byref(self._device))
        image = self.flash.read(choice.image_address, choice.size_bytes)
        return Running(image=image, slot=choice.slot, is_trial=choice.is_trial)

    def begin(self, package: Package) -> Status:
        return self.begin_with(package.manifest.to_bytes(), package.signature)

    def begin_with(self, manifest: bytes, signature: bytes) -> Status:
        return self._step("hg_updater_begin", manifest, ctypes.c_size_t(len(manifest)), signature)

    def chunk(self, offset: int, data: bytes) -> Status:
        return self._step("hg_updater_chunk", ctypes.c_uint32(offset), data, ctypes.c_size_t(len(data)))

    def end(self) -> Status:
        return self._step("hg_updater_end")

    def confirm(self) -> Status:
        return self._step("hg_updater_confirm")

    @property
    def next_offset(self) -> int:
        return int(self._update.next_offset)

    @property
    def record(self) -> _Record:
        record: _Record = self._update.record
        return record

    def send(self, package: Package, *, chunk_bytes: int = 96) -> Status:
        """Begin, every chunk that is still missing, end."""
        status = self.begin(package)
        while status is Status.OK and self.next_offset < len(package.image):
            start = self.next_offset
            status = self.chunk(start, package.image[start : start + chunk_bytes])
        return self.end() if status is Status.OK else status

    def _step(self, function: str, *arguments: object) -> Status:
        return Status(self._call(function, ctypes.byref(self._update), *arguments))

    def _call(self, function: str, *arguments: object) -> int:
        status = int(getattr(library(), function)(*arguments))
        if self._fault is not None:
            raise self._fault
        if self.flash.is_off:
            raise PowerCut
        return status

    def _read(self, _user: int, address: int, data: "ctypes._Pointer[ctypes.c_uint8]", length: int) -> bool:
        try:
            ctypes.memmove(data, self.flash.read(address, length), length)
        except AssertionError as error:
            self._fault = error
        return self._fault is None

    def _write(self, _user: int, address: int, data: "ctypes._Pointer[ctypes.c_uint8]", length: int) -> bool:
        try:
            return self.flash.write(address, ctypes.string_at(data, length))
        except AssertionError as error:
            self._fault = error
            return False

    def _erase(self, _user: int, address: int) -> bool:
        try:
            return self.flash.erase(address)
        except AssertionError as error:
            self._fault = error
            return False
