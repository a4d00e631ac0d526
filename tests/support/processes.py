"""Processes that a test starts: each is ended with its block, and none may be left."""

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, AnyStr


@contextlib.contextmanager
def ended(process: subprocess.Popen[AnyStr]) -> Iterator[subprocess.Popen[AnyStr]]:
    """Kills the process at the end of the block, however that ends, waits for it and closes its pipes.

    `Popen` alone waits at the end of its block: a failed assertion would wait for ever.
    """
    with process:
        try:
            yield process
        finally:
            process.kill()


@contextlib.asynccontextmanager
async def spawned(*command: str, **options: Any) -> AsyncIterator[asyncio.subprocess.Process]:
    """The same for a process of the event loop."""
    process = await asyncio.create_subprocess_exec(*command, **options)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


def processes_that_name(folder: Path) -> list[str]:
    """The command lines with the folder in them, except those of the tests themselves."""
    return [line for line in _command_lines() if str(folder) in line and "pytest" not in line.split("--")[0]]


def _command_lines() -> Iterator[str]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended
            yield path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
