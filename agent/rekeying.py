"""Requests for new keys of encrypted streams: files in a folder of the data directory, one per stream.

A request survives until the agent has the new key on the disk, so it may be made while the agent does not run. Only
who can write into the agent's own folder can make one.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from agent.atomic_files import replace_file

__all__ = ["FOLDER_NAME", "ask_to_rekey", "is_asked_to_rekey", "rekey_when_asked"]

FOLDER_NAME: Final = "rekey"
CHECK_S: Final = 1.0
MAX_REQUESTS: Final = 256
MAX_STREAM_ID_BYTES: Final = 1024

log = logging.getLogger(__name__)


def ask_to_rekey(folder: Path, stream_id: str) -> None:
    """Raises: OSError."""
    replace_file(_request_file(folder, stream_id), stream_id.encode())


def is_asked_to_rekey(folder: Path, stream_id: str) -> bool:
    return _request_file(folder, stream_id).exists()


async def rekey_when_asked(folder: Path, rekey: Callable[[str], None]) -> None:
    """For as long as it runs. `rekey` raises KeyError for a stream that is not encrypted, or OSError.

    A request that cannot be granted now stays: the next configuration may have that stream, the disk may have room.
    """
    await asyncio.to_thread(folder.mkdir, mode=0o750, exist_ok=True)
    problems: dict[Path, str] = {}
    while True:
        found = await asyncio.to_thread(_grant_requests, folder, rekey)
        for request, problem in found.items() - problems.items():
            log.error("a stream is not rekeyed yet; request=%s problem=%s", request.name, problem)
        problems = found
        await asyncio.sleep(CHECK_S)


def _grant_requests(folder: Path, rekey: Callable[[str], None]) -> dict[Path, str]:
    """What stands in the way of those that are left."""
    problems = {}
    for request in sorted(folder.glob("[!.]*"))[:MAX_REQUESTS]:
        try:
            with request.open("rb") as file:
                rekey(file.read(MAX_STREAM_ID_BYTES).decode(errors="replace"))
            request.unlink()
        except KeyError as error:
            problems[request] = f"no encrypted stream has this id: {error}"
        except OSError as error:
            problems[request] = str(error)
    return problems


def _request_file(folder: Path, stream_id: str) -> Path:
    return folder / hashlib.sha256(stream_id.encode()).hexdigest()[:32]
