import asyncio
import threading

import pytest

from testbed.processes import to_its_end


def test_who_is_cancelled_waits_until_the_work_is_done() -> None:
    begun, may_end = threading.Event(), threading.Event()
    done: list[str] = []

    def work() -> None:
        begun.set()
        may_end.wait(20)
        done.append("work")

    async def run() -> None:
        task = asyncio.create_task(to_its_end(work))
        await asyncio.to_thread(begun.wait, 20)
        task.cancel()
        asyncio.get_running_loop().call_soon(may_end.set)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert done == ["work"]

    asyncio.run(run())


def test_what_the_work_gives_or_raises_is_passed_on() -> None:
    assert asyncio.run(to_its_end(lambda: 7)) == 7
    with pytest.raises(ZeroDivisionError):
        asyncio.run(to_its_end(lambda: 1 // 0))
