"""Rotated files: `NAME` is written to; `NAME.1`, `NAME.2`, … are full.

Numbers rise: the highest is the newest. A file gets its number by one rename, so a crash leaves it under one of the two
names, and no name is ever given to another file while the first one exists.
"""

from pathlib import Path

from runtime.durable_files import sync_directory


def rotated(path: Path) -> list[Path]:
    """The full files, the oldest first."""
    found = {_number(each, path): each for each in path.parent.glob(f"{_escaped(path.name)}.*")}
    return [found[number] for number in sorted(number for number in found if number)]


def rotate(path: Path) -> None:
    """Give the file its number; the next write begins a new one. Durable on return. Raises: OSError."""
    newest = rotated(path)[-1:]
    number = _number(newest[0], path) + 1 if newest else 1
    path.rename(path.with_name(f"{path.name}.{number}"))
    sync_directory(path.parent)


def remove_rotated(full: Path) -> None:
    """Raises: OSError."""
    full.unlink()
    sync_directory(full.parent)


def _number(each: Path, path: Path) -> int:
    """0 if it is another's file."""
    digits = each.name.removeprefix(f"{path.name}.")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else 0


def _escaped(name: str) -> str:
    return "".join(f"[{each}]" if each in "*?[" else each for each in name)
