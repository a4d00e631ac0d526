"""A Unix socket by which the running agent serves commands on its own machine; only its own user and root connect."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

SOCKET_MODE: Final = 0o600
MAX_LINE_BYTES: Final = 64 * 1024
MAX_CLIENTS: Final = 4

Converse = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


async def serve_locally(path: Path, converse: Converse, *, name: str) -> None:
    """Until cancelled. `converse` serves one client; its connection is closed afterwards. Raises: OSError at first."""
    clients: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(clients) >= MAX_CLIENTS:
            writer.transport.abort()
            return
        task = asyncio.create_task(_serve_client(converse, reader, writer), name=name)
        clients.add(task)
        task.add_done_callback(clients.discard)

    server = await asyncio.start_unix_server(accept, sock=_bound(path), limit=MAX_LINE_BYTES)
    try:
        await asyncio.Event().wait()
    finally:
        server.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)  # noqa: PTH108 - never waits
        for task in list(clients):
            task.cancel()
        await asyncio.gather(*clients, return_exceptions=True)


def _bound(path: Path) -> socket.socket:
    """Bind the socket so that only permitted users can connect, from the first moment on. Raises: OSError."""
    path.unlink(missing_ok=True)
    bound = socket.socket(socket.AF_UNIX)
    try:
        bound.bind(str(path))
        path.chmod(SOCKET_MODE)
    except OSError:
        bound.close()
        raise
    return bound


async def _serve_client(converse: Converse, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        with contextlib.suppress(OSError, ValueError):  # the client left, or its line is too long
            await converse(reader, writer)
    finally:
        await hang_up(writer)


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
