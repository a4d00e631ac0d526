"""Worker threads for blocking calls."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Workers:
    """A pool of threads for one kind of work; calls beyond its size wait in a queue."""

    def __init__(self, count: int, name: str) -> None:
        self._threads = ThreadPoolExecutor(count, thread_name_prefix=name)

    async def run(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Call a function in a thread and wait for its end, even if the task is cancelled meanwhile.

        Otherwise the call could still use the same files as the next request.
        """
        future = asyncio.get_running_loop().run_in_executor(self._threads, partial(function, *arguments, **named))
        cancelled: asyncio.CancelledError | None = None
        while not future.done():
            try:
                await asyncio.wait({future})
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            future.exception()  # retrieved, so that asyncio does not log it
            raise cancelled
        return future.result()

    def close(self) -> None:
        self._threads.shutdown()
