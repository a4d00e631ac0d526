"""Bounded shutdown: tasks that ignore their cancellation cannot keep the process running.

A cancelled task may continue: a library swallows the cancellation, or the task waits for a thread that hangs. Waiting
for such a task never ends, and neither does `asyncio.run` after it. So each wait for the end of a task has a limit
here, and an alarm ends the process `STOP_LIMIT_S` after it was requested to stop.
"""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable, Collection, Coroutine, Iterator
from types import FrameType
from typing import Any, Final, NoReturn, TypeVar

STOP_LIMIT_S: Final = 25.0  # less than systemd waits before it kills (TimeoutStopSec=30)
SECOND_TRY_S: Final = 1.0
FAULT_EXIT_CODE: Final = 70  # as for every internal error
MAX_NAMED_TASKS: Final = 8
T = TypeVar("T")
log = logging.getLogger(__name__)
LEAVE_LIMIT_S: Final = 5.0


async def end_tasks(tasks: Collection["asyncio.Task[Any]"], limit_s: float) -> "set[asyncio.Task[Any]]":
    """Cancel tasks and wait for their end. Returns those that still run, after a second cancellation at the limit."""
    pending = {task for task in tasks if not task.done()}
    for is_second, wait_s in enumerate((limit_s, SECOND_TRY_S)):
        for task in pending:
            if is_second or not task.cancelling():  # a task that is ending already is not interrupted again
                task.cancel()
        if pending:
            _, pending = await asyncio.wait(pending, timeout=wait_s)
    return pending


async def run_until_first_ends(**works: Coroutine[Any, Any, None]) -> None:
    """Run coroutines side by side, as tasks with these names. The first that ends, ends the others.

    Raises whatever ended the first.
    """
    tasks = [asyncio.create_task(work, name=name) for name, work in works.items()]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


def check_cancelled() -> None:
    """For loops around code that may swallow a cancellation. Raises: CancelledError if the task was cancelled."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def call_on_stop_signals(stop: Callable[[str], object]) -> None:
    """Call `stop` with the signal's name on SIGTERM and SIGINT. A process that still runs at the limit is then ended.

    The limit also holds while the event loop is busy: the alarm needs only the interpreter.
    """
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number.name)
        signal.signal(number, _start_alarm)  # beside the loop's handler, which is called through a pipe


def run_and_end(main: Coroutine[Any, Any, T]) -> T:
    """Like `asyncio.run`, but after the end of `main` the process waits a limited time for remaining tasks."""

    async def run() -> T:
        try:
            return await main
        finally:
            _start_alarm()

    before = signal.signal(signal.SIGALRM, _end_process)
    try:
        return asyncio.run(run())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _start_alarm(_number: int = 0, _frame: FrameType | None = None) -> None:
    """Start the alarm once: a second signal does not extend the limit."""
    if signal.getsignal(signal.SIGALRM) is _end_process and not signal.getitimer(signal.ITIMER_REAL)[0]:
        signal.setitimer(signal.ITIMER_REAL, STOP_LIMIT_S)


def _end_process(_number: int, _frame: FrameType | None) -> NoReturn:
    try:
        log.error("did not stop within %.0f s, ended; still running: %s", STOP_LIMIT_S, _running_tasks() or "unknown")
    finally:
        os._exit(FAULT_EXIT_CODE)


def _running_tasks() -> str:
    try:
        tasks = [task.get_name() for task in asyncio.all_tasks(asyncio.get_running_loop()) if not task.done()]
    except RuntimeError:  # the loop has ended
        tasks = []
    threads = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    return ", ".join([*tasks, *threads][:MAX_NAMED_TASKS])


class StoppableTasks:
    """Named tasks of a group: one that fails ends all; one that ignores its cancellation does not block the end."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._watchers: dict[str, asyncio.Task[None]] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._tasks)

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = self._tasks[name] = asyncio.create_task(work, name=name)
        self._watchers[name] = self._group.create_task(_watch(task), name=f"watch: {name}")

    async def stop(self, *names: str, limit_s: float) -> list[str]:
        """End tasks. Returns the names of those that did not end; they can be stopped again."""
        tasks = {name: self._tasks[name] for name in names if name in self._tasks}
        stuck = await end_tasks(tasks.values(), limit_s)
        for name, task in tasks.items():
            if task not in stuck and self._tasks.get(name) is task:
                del self._tasks[name], self._watchers[name]
        _report(stuck, limit_s)
        return [name for name, task in tasks.items() if task in stuck]

    def abandon(self) -> None:
        """End all remaining tasks. Those that do not end are abandoned when the group ends."""
        for watcher in self._watchers.values():
            watcher.cancel()


async def _watch(task: "asyncio.Task[None]") -> None:
    """Stands for the task in the group. Raises the exception that ended the task."""
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        if stuck := await end_tasks({task}, LEAVE_LIMIT_S):
            _report(stuck, LEAVE_LIMIT_S)
            raise
    await task


def _report(stuck: "set[asyncio.Task[Any]]", limit_s: float) -> None:
    for task in stuck:
        log.error("task was cancelled and still runs; task=%s waited_s=%.0f", task.get_name(), limit_s)
