"""An agent whose clock goes ten years ahead and comes back, and a real node that refuses what is in the future."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from agent.clock import ClockReading, SystemClock
from agent.config.configuration import load_config
from agent.keys import Secret, load_keys
from agent.pipeline import RELOAD_TASK, Pipeline
from protocol.clock import EXCURSION_INFO_TYPE, ExcursionNotice
from tests.support.destinations import NodeDestination
from tests.support.patience import PATIENCE_S
from tests.support.running_agent import Agent, assert_whole, readings_of

pytestmark = pytest.mark.slow

FIVE_MINUTES_MS = 300_000
TEN_YEARS_MS = 3650 * 86_400_000


class ShiftedClock(SystemClock):
    """A clock that the test sets. The test also decides whether the kernel reports it as synchronised."""

    ahead_ms = 0

    def __init__(self, *, is_synchronised: bool) -> None:
        super().__init__()
        self._is_synchronised = is_synchronised

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms

    def read(self) -> ClockReading:
        kernel = super().read()
        return ClockReading(
            now_ms=self.now_ms(),
            monotonic_ms=kernel.monotonic_ms,
            boot_id=kernel.boot_id,
            is_synchronised=self._is_synchronised,
            max_error_ms=1,
        )


def is_ahead(timestamp_ms: int) -> bool:
    return timestamp_ms > SystemClock().now_ms() + FIVE_MINUTES_MS


async def until(is_true: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not is_true():  # noqa: ASYNC110 - files know no events
            await asyncio.sleep(0.01)


Story = Callable[["Life"], Coroutine[None, None, None]]


class Life:
    """One pipeline of the device, in this process."""

    def __init__(self, agent: Agent, clock: ShiftedClock) -> None:
        keys = load_keys(agent.key_file, lambda: Secret(b""))
        self.agent = agent
        self.clock = clock
        self.pipeline = Pipeline(load_config(agent.config), keys, clock)
        self.stop = asyncio.Event()

    async def run(self, story: Story) -> None:
        await self.pipeline.run(self.stop, {RELOAD_TASK: self._tell(story)})

    async def _tell(self, story: Story) -> None:
        try:
            await story(self)
        finally:
            self.stop.set()

    def accepted(self) -> int:
        return self.pipeline.links["node"].sender.status.messages_acknowledged

    def refused(self) -> int:
        return self.pipeline.links["node"].sender.status.messages_quarantined


@pytest.mark.parametrize("is_synchronised", [True, False])
def test_publishing_goes_on_when_the_clock_is_back(tmp_path: Path, *, is_synchronised: bool) -> None:
    node = NodeDestination(tmp_path / "node", "websocket")
    node.start()
    extra = f'\n[publishers.node]\nkind = "websocket"\nurl = "http://{node.url}"\n[page]\nlisten = "off"\n'
    agent = Agent.make(tmp_path / "agent", rate_hz=20, extra=extra)
    clock = ShiftedClock(is_synchronised=is_synchronised)

    async def excursion(life: Life) -> None:
        await until(life.accepted)
        clock.ahead_ms = TEN_YEARS_MS
        await until(life.refused)
        clock.ahead_ms = 0
        await until(lambda: not is_ahead(agent.messages()[-1].message_id.timestamp))
        before = life.accepted()
        await until(lambda: life.accepted() > before + 20)

    async def later(life: Life) -> None:
        count = len(agent.lines())
        await until(lambda: len(agent.lines()) > count + 20)
        assert not is_ahead(agent.messages()[-1].message_id.timestamp)
        assert life.refused() == 0

    try:
        for story in (excursion, later):
            asyncio.run(Life(agent, clock).run(story))
    finally:
        node.stop()
    messages = agent.messages()
    assert_whole(messages)
    chains = defaultdict(list)
    for message in messages:
        chains[message.message_id.msg_chain_id].append(message.message_id.ref)
    assert all(references == sorted(set(references)) for references in chains.values()), "no chain goes back"
    events = readings_of(*(each for each in messages if each.message_id.stream_id.endswith("/events")))
    (notice,) = [
        ExcursionNotice.from_bytes(e.content_data or b"") for e in events if e.info_type == EXCURSION_INFO_TYPE
    ]
    assert is_ahead(notice.last.timestamp_ms)
    assert not is_ahead(notice.now_ms)
    assert {name.rpartition("/")[2] for name, _ in notice.chains} <= set(chains)
    refused = [json.loads(line) for line in (agent.folder / "data/quarantine/node.jsonl").read_text().splitlines()]
    assert all(is_ahead(entry["timestamp_ms"]) for entry in refused), "only what was in the future was refused"
