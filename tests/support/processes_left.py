"""What runs, and should not any more."""

from collections.abc import Iterator
from pathlib import Path


def processes_that_name(folder: Path) -> list[str]:
    """Command lines with the folder in them, but for the tests' own."""
    return [line for line in _command_lines() if str(folder) in line and "pytest" not in line.split("--")[0]]


def _command_lines() -> Iterator[str]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it ended meanwhile
