"""The law of losses: whatever happens to a device, the collector gets each message, or is informed that it is lost.

The device log shows it: at the end, its last log has no hole, and the checkpoint counts what was lost.
"""

import asyncio
import tempfile
from functools import reduce
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent.archive.store import STATE_NAME
from protocol.devicelog.checkpoint import Checkpoint
from tests.effort import effort
from tests.support.archives import read_archive
from tests.support.small_device import SmallDevice

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 90)),
        st.tuples(st.just("rot"), st.integers(0, 1 << 20)),
        st.tuples(st.just("rot"), st.integers(0, 1 << 20)),
        st.tuples(st.just("publish"), st.just(0)),
        st.tuples(st.sampled_from(["archive", "ship", "rot archive", "restart"]), st.just(0)),
        st.tuples(st.sampled_from(["checkpoint", "refused", "new log", "lose state"]), st.just(0)),
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
                case "checkpoint":
                    await device.state_checkpoint()
                case "refused" if device.archiving.kept:
                    await device.archiving.begin_log("refused", device.archiving.kept[0])
                case "new log":
                    await device.archiving.begin_log("behind")
                case "lose state":
                    (folder / STATE_NAME).unlink()
                    await device.restart()
                case _:
                    await device.restart()
        await device.settle()
        assert device.unaccounted() == set()
        assert device.gaps == ()
        await device.state_checkpoint()
        check_log(device, device.stated[-1])
    finally:
        await device.close()


def check_log(device: SmallDevice, checkpoint: Checkpoint) -> None:
    """The log of today is whole at the collector: each number, each position, and as many losses as it says."""
    manifests = [read_archive(data)[0].manifest for data in device.collected.values()]
    own = {each.entry.number: each for each in manifests if each.entry.log == checkpoint.log}
    replaced = {each.number for manifest in own.values() for each in manifest.entry.replaces}
    assert sorted({*own, *replaced}) == list(range(checkpoint.size))
    for lane in checkpoint.lanes:
        ranges = sorted(manifest.entry.range_of(lane.lane)[2:] for manifest in own.values())
        assert reduce(lambda reached, each: each[1] if each[0] <= reached else -1, ranges, lane.begin) == lane.archived
        assert (lane.released, lane.archived) == (lane.archived, lane.committed)
        readings = sum(each.readings for manifest in own.values() for each in manifest.lanes if each.lane == lane.lane)
        assert lane.archived - lane.begin - readings == lane.lost


@pytest.mark.slow
@settings(max_examples=effort(test=25, soak=1_000), deadline=None)
@given(STEPS)
@example([("archive", 0), ("write", 70), ("rot archive", 0), ("archive", 0), ("rot archive", 0)])
def test_every_message_is_at_the_collector_or_reported_there(steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(live(steps, Path(folder)))
