import asyncio
import os
import signal
import subprocess
import sys

import pytest

from runtime.stopping import (
    StoppableTasks,
    call_on_stop_signals,
    check_cancelled,
    end_tasks,
    run_and_end,
    run_until_first_ends,
)
from tests.support.patience import PATIENCE_S
from tests.support.processes import ended

PROGRAM = """
import asyncio, logging, threading, time
from runtime import stopping

stopping.STOP_LIMIT_S = 0.3
logging.basicConfig(format="%(message)s")

async def ignore_cancellations():
    print("ready", flush=True)
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

async def wait_for_thread():
    print("ready", flush=True)
    await asyncio.to_thread(threading.Event().wait)

async def keep_the_loop_busy():
    print("ready", flush=True)
    while True:
        time.sleep(0.001)

async def end_and_leave_a_task_behind():
    global task  # the loop alone does not hold it: it could be collected as garbage before the end
    task = asyncio.create_task(ignore_cancellations(), name="left behind")
    await asyncio.sleep(0)

async def until_signal(work):
    stop = asyncio.Event()
    stopping.call_on_stop_signals(lambda name: stop.set())
    async with asyncio.TaskGroup() as group:
        task = group.create_task(work, name="hanging")
        await stop.wait()
        task.cancel()

stopping.run_and_end(MAIN)
"""


@pytest.mark.parametrize(
    ("work", "still_running"),
    [("ignore_cancellations", "hanging"), ("wait_for_thread", "asyncio_0"), ("keep_the_loop_busy", "hanging")],
)
def test_a_process_that_cannot_stop_is_ended_at_the_limit_and_says_what_still_ran(
    work: str, still_running: str
) -> None:
    command = [sys.executable, "-c", PROGRAM.replace("MAIN", f"until_signal({work}())")]
    with ended(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 70
    assert "did not stop within" in log
    assert still_running in log


def test_what_main_leaves_behind_does_not_hold_up_the_end() -> None:
    command = [sys.executable, "-c", PROGRAM.replace("MAIN", "end_and_leave_a_task_behind()")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ended.returncode == 70
    assert "left behind" in ended.stderr


def test_a_program_that_ends_in_order_leaves_no_alarm() -> None:
    async def main() -> int:
        return 7

    assert run_and_end(main()) == 7
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


async def _swallow(cancellations: int) -> None:
    for _ in range(cancellations + 1):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue


def test_a_task_that_swallows_one_cancellation_gets_another() -> None:
    async def scenario() -> None:
        task = asyncio.create_task(_swallow(1))
        await asyncio.sleep(0)
        assert await end_tasks([task], 0.01) == set()

    asyncio.run(scenario())


def test_a_task_that_goes_on_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.stopping.SECOND_TRY_S", 0.01)

    async def scenario() -> None:
        stubborn, willing = asyncio.create_task(_swallow(2)), asyncio.create_task(_swallow(0))
        await asyncio.sleep(0)
        assert await end_tasks([stubborn, willing], 0.01) == {stubborn}

    asyncio.run(scenario())


def test_a_task_that_is_ending_is_not_interrupted() -> None:
    cleaned_up = []

    async def clean_up() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            cleaned_up.append(True)

    async def scenario() -> None:
        task = asyncio.create_task(clean_up())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        assert await end_tasks([task], 10) == set()

    asyncio.run(scenario())
    assert cleaned_up


def test_a_swallowed_cancellation_is_found() -> None:
    async def scenario() -> None:
        check_cancelled()
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            with pytest.raises(asyncio.CancelledError):
                check_cancelled()
            task.uncancel()
        check_cancelled()

    asyncio.run(scenario())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_signal_is_passed_on_by_its_name_and_starts_the_alarm_once(number: signal.Signals) -> None:
    async def main() -> tuple[str, float, float]:
        named: asyncio.Queue[str] = asyncio.Queue()
        call_on_stop_signals(named.put_nowait)
        os.kill(os.getpid(), number)
        name = await named.get()
        after_first_s, _ = signal.getitimer(signal.ITIMER_REAL)
        os.kill(os.getpid(), number)
        await named.get()
        return name, after_first_s, signal.getitimer(signal.ITIMER_REAL)[0]

    name, after_first_s, after_second_s = run_and_end(main())
    assert name == number.name
    assert 0 < after_second_s <= after_first_s, "a second signal gives no more time"


async def _run_until_cancelled() -> None:
    await asyncio.Event().wait()


async def _fail_when(called: asyncio.Event) -> None:
    await called.wait()
    raise ValueError("a fault, on purpose")


def test_named_tasks_are_stopped_one_by_one_and_the_others_go_on() -> None:
    async def scenario() -> None:
        async with asyncio.TaskGroup() as group:
            tasks = StoppableTasks(group)
            tasks.start("reader", _run_until_cancelled())
            tasks.start("writer", _run_until_cancelled())
            await asyncio.sleep(0)
            assert await tasks.stop("reader", "never started", limit_s=10) == []
            assert list(tasks) == ["writer"]
            tasks.start("reader", _run_until_cancelled())  # a name may be used again
            assert list(tasks) == ["writer", "reader"]
            tasks.abandon()

    asyncio.run(scenario())


def test_a_named_task_that_fails_ends_all_of_its_group() -> None:
    others: list[asyncio.Task[None]] = []

    async def remember_and_run() -> None:
        task = asyncio.current_task()
        assert task is not None
        others.append(task)
        await asyncio.Event().wait()

    async def scenario() -> None:
        called = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            tasks = StoppableTasks(group)
            tasks.start("other", remember_and_run())
            tasks.start("failing", _fail_when(called))
            await asyncio.sleep(0)
            called.set()

    with pytest.raises(ExceptionGroup) as raised:
        asyncio.run(scenario())
    assert [str(error) for error in raised.value.exceptions] == ["a fault, on purpose"]
    assert [task.cancelled() for task in others] == [True]


def test_a_named_task_that_ignores_its_cancellation_is_reported_and_may_be_stopped_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("runtime.stopping.SECOND_TRY_S", 0.01)

    async def scenario() -> None:
        async with asyncio.TaskGroup() as group:
            tasks = StoppableTasks(group)
            tasks.start("stubborn", _swallow(2))
            await asyncio.sleep(0)
            assert await tasks.stop("stubborn", limit_s=0.01) == ["stubborn"]
            assert list(tasks) == ["stubborn"]
            assert await tasks.stop("stubborn", limit_s=0.01) == []
            assert list(tasks) == []

    asyncio.run(scenario())
    assert [record.getMessage() for record in caplog.records] == [
        "task was cancelled and still runs; task=stubborn waited_s=0"
    ]


def test_a_group_that_is_left_does_not_wait_for_a_task_that_ignores_its_cancellation(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("runtime.stopping.SECOND_TRY_S", 0.01)
    monkeypatch.setattr("runtime.stopping.LEAVE_LIMIT_S", 0.01)
    left_behind: list[str] = []

    async def scenario() -> None:
        async with asyncio.TaskGroup() as group:
            tasks = StoppableTasks(group)
            tasks.start("stubborn", _swallow(2))
            tasks.start("willing", _run_until_cancelled())
            await asyncio.sleep(0)
            tasks.abandon()
        left_behind.extend(task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task())

    asyncio.run(scenario())
    assert left_behind == ["stubborn"]
    assert "task=stubborn" in caplog.text
    assert "willing" not in caplog.text


def test_the_first_that_ends_ends_the_others_and_its_error_is_raised() -> None:
    ended_names: list[str] = []

    async def waits(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended_names.append(name)

    async def fails() -> None:
        await asyncio.sleep(0)
        raise OSError("the line is cut")

    with pytest.raises(OSError, match="the line is cut"):
        asyncio.run(run_until_first_ends(one=waits("one"), two=waits("two"), three=fails()))
    assert ended_names == ["one", "two"]
    asyncio.run(run_until_first_ends(one=waits("one"), two=asyncio.sleep(0)))
    assert ended_names == ["one", "two", "one"]
