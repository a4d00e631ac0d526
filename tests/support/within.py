"""A time limit on one awaitable, for tests that would otherwise hang."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def within(limit_s: float, work: Awaitable[T]) -> T:
    """The result of the work. Raises: TimeoutError."""
    async with asyncio.timeout(limit_s):
        return await work
