"""A device is read for ever: failures are reopened after longer and longer waits, and reported once."""

import asyncio
import contextlib

import pytest

from drivers import DeviceChange, DeviceError, DeviceState, Driver, Reading, supervise
from runtime.backoff import Backoff
from tests.support.patience import PATIENCE_S
from tests.support.within import within

READING = Reading("s", "q", 1, taken_at_ms=0)
INSTANT = Backoff(first_s=0.000_1, max_s=0.000_1)


class ScriptedDriver(Driver):
    """Each letter is one call: o opens, r reads, n reads nothing, t reads with trouble, d reads nothing
    and is down, x fails."""

    def __init__(self, script: str) -> None:
        super().__init__("scripted")
        self.calls: list[str] = []
        self.returns = 0
        self._script = iter(script)
        self._trouble = self._outage = ""

    @property
    def outage(self) -> str:
        return self._outage

    @property
    def trouble(self) -> str:
        return self._trouble

    async def open(self) -> None:
        self.calls.append("open")
        self._step()

    async def read(self) -> list[Reading]:
        self.calls.append("read")
        letter = self._step()
        self._trouble = "noise" if letter == "t" else ""
        self._outage = "scripted: no answer" if letter == "d" else ""
        return [] if letter in "nd" else [READING]

    async def close(self) -> None:
        self.calls.append("close")

    def _step(self) -> str:
        letter = next(self._script, "")
        if letter == "x":
            raise DeviceError("scripted: it broke; check the script")
        if not letter:
            raise asyncio.CancelledError
        return letter


def events_of(driver: Driver, backoff: Backoff = INSTANT) -> list[list[Reading] | DeviceChange]:
    async def collect() -> list[list[Reading] | DeviceChange]:
        events: list[list[Reading] | DeviceChange] = []
        with contextlib.suppress(asyncio.CancelledError):
            async for event in supervise(driver, backoff, chance=lambda: 0.0, clock_ms=lambda: 1000):
                events += [event]  # a comprehension would lose them all when the script ends
        return events

    return asyncio.run(collect())


def states(events: list[list[Reading] | DeviceChange]) -> list[DeviceState]:
    return [event.after for event in events if isinstance(event, DeviceChange)]


def test_readings_follow_the_word_that_the_device_is_up() -> None:
    change, first, second = events_of(ScriptedDriver("orr"))
    assert isinstance(change, DeviceChange)
    assert (change.after, first, second) == (DeviceState.UP, [READING], [READING])


def test_many_failures_are_one_change_and_the_device_is_up_only_when_it_reads() -> None:
    events = events_of(ScriptedDriver("xxxoxoxor"))
    assert states(events) == [DeviceState.DOWN, DeviceState.UP]


def test_trouble_comes_and_goes() -> None:
    events = events_of(ScriptedDriver("orttrn"))
    assert states(events) == [DeviceState.UP, DeviceState.DEGRADED, DeviceState.UP]


def test_a_read_that_gives_nothing_is_no_batch() -> None:
    assert [event for event in events_of(ScriptedDriver("onn")) if isinstance(event, list)] == []


def test_a_failed_device_is_closed_before_it_is_opened_again_and_at_the_end() -> None:
    driver = ScriptedDriver("orxor")
    events_of(driver)
    assert driver.calls == ["open", "read", "read", "close", "open", "read", "read", "close"]


def test_a_device_that_returns_is_opened_without_waiting_out_the_backoff() -> None:
    class Returning(ScriptedDriver):
        async def returned(self) -> None:
            self.returns += 1

    driver = Returning("xxor")
    assert states(events_of(driver, Backoff(first_s=3600, max_s=3600))) == [DeviceState.DOWN, DeviceState.UP]
    assert driver.returns == 2


def test_a_driver_that_keeps_its_port_and_goes_on_trying_is_down_meanwhile() -> None:
    driver = ScriptedDriver("ordddrr")
    events = events_of(driver)
    assert states(events) == [DeviceState.UP, DeviceState.DOWN, DeviceState.UP]
    assert driver.calls.count("open") == 1


class SwallowingDriver(ScriptedDriver):
    """Its library swallows the cancellation that comes while it reads, and gives the reading."""

    def __init__(self) -> None:
        super().__init__("o")
        self.is_reading = asyncio.Event()

    async def read(self) -> list[Reading]:
        if self.is_reading.is_set():
            await asyncio.Event().wait()
        self.is_reading.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return []


def test_a_swallowed_cancellation_ends_the_reading_nevertheless() -> None:
    driver = SwallowingDriver()

    async def scenario() -> None:
        async def collect() -> None:
            async for _ in supervise(driver):
                pass

        task = asyncio.create_task(collect())
        await within(PATIENCE_S, driver.is_reading.wait())
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=PATIENCE_S)
        assert done

    asyncio.run(scenario())
    assert driver.calls[-1] == "close"


def changes_of(driver: Driver) -> list[DeviceChange]:
    """With a clock on which each read, and each failure, takes ten seconds."""
    seconds = iter(range(0, 10_000, 10))

    async def collect() -> list[DeviceChange]:
        changes: list[DeviceChange] = []
        with contextlib.suppress(asyncio.CancelledError):
            async for event in supervise(driver, INSTANT, chance=lambda: 0.0, monotonic_s=lambda: float(next(seconds))):
                if isinstance(event, DeviceChange):
                    changes.append(event)  # noqa: PERF401 - a comprehension would lose them all when the script ends
        return changes

    return asyncio.run(collect())


def test_a_sensor_that_stops_sending_makes_its_device_silent_and_the_next_reading_ends_that() -> None:
    driver = ScriptedDriver("o" + "r" * 12 + "n" * 12 + "rr")
    changes = changes_of(driver)
    assert [change.after for change in changes] == [DeviceState.UP, DeviceState.SILENT, DeviceState.UP]
    assert changes[1].reason.startswith("scripted: no reading of s for ")


@pytest.mark.parametrize("outage", ["d" * 30, "x" * 30 + "o"])
def test_the_time_of_an_outage_does_not_count_as_silence(outage: str) -> None:
    driver = ScriptedDriver("o" + "r" * 12 + outage + "nnr" + "n" * 30)
    states = [change.after for change in changes_of(driver)]
    assert states == [DeviceState.UP, DeviceState.DOWN, DeviceState.UP, DeviceState.SILENT]
