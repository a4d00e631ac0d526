"""The machine that keys were created on, stored beside them, so that a cloned card does not run as the same device.

`device.keys.machine` is JSON: `board`, a hash of the serial number that the board has (a Raspberry Pi, say), and
`system`, a hash of the machine-id of the installed system; each is "" where there is none. Where both sides know their
board, the board decides: a system that is installed anew on it is the same machine. A missing file means that the keys
may be used anywhere.
"""

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from runtime.durable_files import replace_file, sync_directory
from runtime.errors import ConfigError

SUFFIX: Final = ".machine"
BOARD_SERIAL: Final = Path("sys/firmware/devicetree/base/serial-number")
MACHINE_ID: Final = Path("etc/machine-id")
MAX_FILE_BYTES: Final = 4096
HASH_DIGITS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    board: str = ""
    system: str = ""

    def is_same(self, other: "Machine") -> bool:
        if self.board and other.board:
            return self.board == other.board
        return not self.system or not other.system or self.system == other.system


def this_machine(root: Path = Path("/")) -> Machine:
    board = _read(root / BOARD_SERIAL).strip(b"\0 \n")
    system = _read(root / MACHINE_ID).strip()
    is_set = re.fullmatch(rb"[0-9a-f]{32}", system) is not None
    return Machine(board=_hashed("board", board), system=_hashed("system", system if is_set else b""))


def machine_of_keys(key_file: Path) -> Machine | None:
    """None: they may be used anywhere. Raises: ConfigError if the note cannot be read."""
    path = _path(key_file)
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(MAX_FILE_BYTES))
        return Machine(board=str(found["board"]), system=str(found["system"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise ConfigError(
            f"{path}: unreadable or damaged; if no other machine has these keys: headgate keys adopt"
        ) from None


def check_machine(key_file: Path, here: Machine | None = None) -> None:
    """Raises: ConfigError if the keys were made for another machine."""
    made_for = machine_of_keys(key_file)
    if made_for is not None and not made_for.is_same(here or this_machine()):
        raise ConfigError(
            f"{key_file}: these keys were made on another machine, and two devices with one identity would spoil each"
            " other's data; if this is a copy of another device's card, give it keys of its own (docs: 'make an image"
            f" for many devices'); if the other never runs again: headgate keys adopt --keys {key_file}"
        )


def adopt_keys(key_file: Path) -> None:
    """Bind the keys to this machine. A machine without serial number and machine-id gets no note."""
    here = this_machine()
    if here == Machine():
        free_keys(key_file)
    else:
        replace_file(_path(key_file), json.dumps(asdict(here)).encode() + b"\n")


def free_keys(key_file: Path) -> None:
    """Let every machine use the keys."""
    if _path(key_file).exists():
        _path(key_file).unlink()
        sync_directory(key_file.parent)


def _path(key_file: Path) -> Path:
    return key_file.with_name(key_file.name + SUFFIX)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_FILE_BYTES)
    except OSError:
        return b""


def _hashed(purpose: str, name: bytes) -> str:
    """A hash, because machine-id(5) requires that the id itself is not shown; "" where there is none."""
    return hashlib.sha256(b"headgate " + purpose.encode() + b"\0" + name).hexdigest()[:HASH_DIGITS] if name else ""
