"""Tasks that are stopped at any turn of the loop, while what they call ends, fails, hangs or swallows the cancellation.

`asyncio.wait_for` of Python 3.11 and libraries built on it swallow a cancellation that comes in the turn in which what
they wait for ends. Laws: one cancellation ends a collector, whatever its driver does with it; a stop and the end of a
group take no longer than their limits, and name exactly the tasks that still run. Virtual time, exact to the turn.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Literal, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent.collect import Batch, Collector
from drivers import DeviceError, Driver, Reading
from runtime.stopping import LEAVE_LIMIT_S, SECOND_TRY_S, StoppableTasks
from tests.effort import effort
from tests.support.virtual_time import Deadlock, run_in_virtual_time

LIMIT_S = 5.0
MAX_TURNS = 12
READING = Reading("s", "q", 1, taken_at_ms=0)


class Call(NamedTuple):
    """One call of a library: it ends, or fails, after some turns, and so it does when it is cancelled."""

    turns: int | None  # None: it waits for ever
    end: Literal["return", "fail"] = "return"
    when_cancelled: Literal["raise", "return", "fail"] = "raise"

    async def run(self) -> None:
        end = self.end
        try:
            if self.turns is None:
                await asyncio.Event().wait()
            for _ in range(self.turns or 0):
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            if self.when_cancelled == "raise":
                raise
            end = self.when_cancelled
        if end == "fail":
            raise DeviceError("scripted: it broke; check the script")


CALLS = st.builds(
    Call,
    st.none() | st.integers(1, 4),
    st.sampled_from(["return", "fail"]),
    st.sampled_from(["raise", "return", "fail"]),
)


class ScriptedDriver(Driver):
    """Goes through its calls again and again."""

    def __init__(self, opens: list[Call], reads: list[Call]) -> None:
        super().__init__("scripted")
        self._opens, self._reads = _again_and_again(opens), _again_and_again(reads)

    async def open(self) -> None:
        await next(self._opens).run()

    async def read(self) -> list[Reading]:
        await next(self._reads).run()
        return [READING]

    async def close(self) -> None:
        await asyncio.sleep(0)


def _again_and_again(calls: list[Call]) -> Iterator[Call]:
    while True:
        yield from calls


@settings(max_examples=effort(test=200, soak=20_000), deadline=None)
@given(
    opens=st.lists(CALLS, min_size=1, max_size=3),
    reads=st.lists(CALLS, min_size=1, max_size=4),
    cancelled_at=st.integers(1, MAX_TURNS),
    queued=st.integers(0, 3),
)
@example(opens=[Call(1)], reads=[Call(1, "return", "return")], cancelled_at=3, queued=0)
@example(opens=[Call(1)], reads=[Call(1, "return", "fail")], cancelled_at=3, queued=0)
def test_one_cancellation_ends_a_collector_whatever_its_driver_does_with_it(
    opens: list[Call], reads: list[Call], cancelled_at: int, queued: int
) -> None:
    async def scenario() -> None:
        queue = asyncio.Queue[Batch](1 + queued)
        consuming = asyncio.create_task(_consume(queue))
        async with asyncio.TaskGroup() as group:
            tasks = StoppableTasks(group)
            tasks.start("collect", Collector(ScriptedDriver(opens, reads), queue, lambda _change: None).run())
            await _turns(cancelled_at)
            before_s = asyncio.get_running_loop().time()
            assert await tasks.stop("collect", limit_s=LIMIT_S) == []
            assert asyncio.get_running_loop().time() - before_s < LIMIT_S, "it took a second cancellation"
            consuming.cancel()

    run_in_virtual_time(scenario())


async def _consume(queue: asyncio.Queue[Batch]) -> None:
    while True:
        await queue.get()


class Stubborn(NamedTuple):
    """A task that swallows some cancellations, then ends after some turns or seconds."""

    swallowed: int
    turns: int
    seconds: float
    is_failing: bool

    async def run(self) -> None:
        for _ in range(self.swallowed):
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(self.seconds)
            await _turns(self.turns)
            if self.is_failing:
                raise ValueError("a fault, on purpose") from None
            raise


STUBBORN = st.builds(
    Stubborn, st.integers(0, 3) | st.just(1000), st.integers(0, 4), st.sampled_from([0, 1, 4, 7, 100]), st.booleans()
)


@settings(max_examples=effort(test=200, soak=20_000), deadline=None)
@given(
    st.lists(STUBBORN, min_size=1, max_size=4), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=5)
)
def test_a_stop_and_the_end_of_a_group_take_no_longer_than_their_limits(
    works: list[Stubborn], stops: list[tuple[int, int]]
) -> None:
    ended: set[int] = set()

    async def run(number: int) -> None:
        try:
            await works[number].run()
        finally:
            ended.add(number)

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            tasks = StoppableTasks(group)
            for number in range(len(works)):
                tasks.start(str(number), run(number))
            await _turns(1)
            for turns, number in stops:
                await _turns(turns)
                name, before_s = str(number % len(works)), loop.time()
                stuck = await tasks.stop(name, limit_s=LIMIT_S)
                assert loop.time() - before_s <= LIMIT_S + SECOND_TRY_S
                assert stuck == ([] if int(name) in ended else [name])
            tasks.abandon()
            before_s = loop.time()
        assert loop.time() - before_s <= LEAVE_LIMIT_S + SECOND_TRY_S

    failures: tuple[Any, ...] = ()
    try:
        run_in_virtual_time(scenario())
    except ExceptionGroup as group:
        failures = group.exceptions
    assert all(str(each) == "a fault, on purpose" for each in failures)
    assert not failures or any(work.is_failing for work in works)


async def _turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_virtual_time_finds_a_wait_without_end() -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock):
        run_in_virtual_time(wait())
