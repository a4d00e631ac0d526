"""The one door to work that blocks."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Workers:
    """A few threads for one kind of work; what they cannot do at once waits for its turn."""

    def __init__(self, count: int, name: str) -> None:
        self._threads = ThreadPoolExecutor(count, thread_name_prefix=name)

    async def run(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Call it in a thread. A step that began is awaited to its end, even by a task that is cancelled meanwhile.

        Otherwise whoever comes next would find the step still working on the same files.
        """
        future = asyncio.get_running_loop().run_in_executor(self._threads, partial(function, *arguments, **named))
        cancelled: asyncio.CancelledError | None = None
        while not future.done():
            try:
                await asyncio.wait({future})
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            future.exception()  # seen, and of no interest to a task that ends
            raise cancelled
        return future.result()

    def close(self) -> None:
        self._threads.shutdown()
