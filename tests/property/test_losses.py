"""The law of losses: whatever happens to a device, the collector gets each message, or is informed that it is lost."""

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.effort import effort
from tests.support.small_device import SmallDevice

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 90)),
        st.tuples(st.just("rot"), st.integers(0, 1 << 20)),
        st.tuples(st.just("rot"), st.integers(0, 1 << 20)),
        st.tuples(st.just("publish"), st.just(0)),
        st.tuples(st.sampled_from(["archive", "ship", "rot archive", "restart"]), st.just(0)),
    ),
    max_size=20,
)


async def live(steps: list[tuple[str, int]], folder: Path) -> None:
    device = SmallDevice(folder)
    try:
        device.write(3)
        for step, number in steps:
            match step:
                case "write":
                    device.write(number)
                case "rot":
                    device.rot(number)
                case "archive":
                    await device.archiving.archive_all()
                case "ship":
                    await device.ship()
                case "rot archive":
                    await device.rot_archive()
                case "publish":
                    device.publish()
                case _:
                    await device.restart()
        await device.settle()
        assert device.unaccounted() == set()
        assert device.gaps == ()
    finally:
        await device.close()


@pytest.mark.slow
@settings(max_examples=effort(test=12, soak=1_000), deadline=None)
@given(STEPS)
@example([("archive", 0), ("write", 70), ("rot archive", 0), ("archive", 0), ("rot archive", 0)])
def test_every_message_is_at_the_collector_or_reported_there(steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(live(steps, Path(folder)))
