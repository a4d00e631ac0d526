import asyncio

from agent.collect import Batch
from agent.events.checkpoints import CheckpointEvents
from protocol.devicelog.checkpoint import Checkpoint, LaneState
from protocol.events import CHECKPOINT_INFO_TYPE
from tests.support.device_logs import checkpoint
from tests.support.patience import PATIENCE_S
from tests.unit.agent.events.test_events import _events


class Journal:
    """Positions that a checkpoint states; the disk can fail."""

    def __init__(self) -> None:
        self.committed = {0: 3, 4: 100}
        self.is_failing = False

    async def make(self) -> Checkpoint:
        if self.is_failing:
            raise OSError("disk full")
        lanes = tuple(LaneState(lane, 0, position, 0, 0, 0) for lane, position in self.committed.items())
        return checkpoint(3, lanes=lanes)


def test_a_checkpoint_is_reported_only_if_anything_else_was_committed_since_the_last() -> None:
    async def run() -> None:
        queue, journal = asyncio.Queue[Batch](), Journal()
        reports = CheckpointEvents(_events(queue), journal.make)
        await reports.report()
        [reading] = queue.get_nowait().readings
        assert reading.quantity == CHECKPOINT_INFO_TYPE
        assert isinstance(reading.value, bytes)
        assert Checkpoint.from_bytes(reading.value) == await journal.make()
        await reports.report()  # before the event itself is committed
        journal.committed[0] += 1  # the event
        await reports.report()
        assert queue.empty()
        journal.committed[4] += 1
        await reports.report()
        assert queue.qsize() == 1

    asyncio.run(run())


def test_a_disk_that_fails_costs_a_report_and_nothing_else() -> None:
    async def run() -> None:
        queue, journal = asyncio.Queue[Batch](), Journal()
        journal.is_failing = True
        reporting = asyncio.create_task(CheckpointEvents(_events(queue), journal.make).run(0.001))
        await asyncio.sleep(0.005)
        journal.is_failing = False
        async with asyncio.timeout(PATIENCE_S):
            await queue.get()
        reporting.cancel()

    asyncio.run(run())
