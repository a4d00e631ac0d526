"""Work in a thread that starts and ends processes."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

__all__ = ["to_its_end"]

T = TypeVar("T")


async def to_its_end(action: Callable[[], T]) -> T:
    """Do it in a thread. A caller who is cancelled meanwhile is cancelled when it is done, and not before.

    Otherwise a process could start after everything was closed, and stay.
    """
    work = asyncio.ensure_future(asyncio.to_thread(action))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise
