"""Being told to stop: by Ctrl-C or by SIGTERM, everything that was started is ended in order."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["run_until_told"]

T = TypeVar("T")


def run_until_told(work: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, which cancels the work on Ctrl-C; here on SIGTERM too. Raises: KeyboardInterrupt for both."""

    async def listen() -> T:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await work

    try:
        return asyncio.run(listen())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
