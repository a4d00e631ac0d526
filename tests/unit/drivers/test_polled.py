import asyncio
import threading

import pytest

from drivers.errors import DeviceError
from drivers.polled import BlockingCall, Schedule
from drivers.reading import Reading
from tests.support.patience import PATIENCE_S

READING = Reading("cellar", "temperature", 1.5, "Cel", taken_at_ms=1)


def test_a_device_that_hangs_costs_one_thread_however_often_it_is_tried() -> None:
    answer, calls = threading.Event(), list[threading.Thread]()

    def hang() -> list[Reading]:
        calls.append(threading.current_thread())
        answer.wait(PATIENCE_S)
        return [READING]

    async def run() -> None:
        call = BlockingCall("cellar", 0.01)
        for _ in range(20):
            with pytest.raises(DeviceError, match="does not answer"):
                await call.run(hang)
        assert len(calls) == 1
        answer.set()
        while not call.is_free:  # noqa: ASYNC110 - it is in another thread
            await asyncio.sleep(0.001)
        assert await call.run(lambda: [READING]) == [READING]

    asyncio.run(run())


def test_ticks_stay_on_whole_multiples_however_long_the_work_takes() -> None:
    schedule = Schedule(10, now_s=100)
    assert schedule.wait_s(100) == 0
    assert schedule.wait_s(103) == 7
    assert schedule.wait_s(119) == 1


def test_ticks_that_were_missed_are_left_out() -> None:
    schedule = Schedule(10, now_s=0)
    assert schedule.wait_s(0) == 0
    assert schedule.wait_s(57) == 0  # that of 50 s, late
    assert schedule.wait_s(57) == pytest.approx(3)
