import asyncio

import pytest

from agent.service.lifecycle import feed_watchdog
from runtime.service_manager import ALIVE
from tests.support.patience import PATIENCE_S
from tests.support.within import within


class _Pipeline:
    """Moves as it is reported, look by look."""

    def __init__(self, *looks: bool) -> None:
        self._looks = iter(looks)
        self.all_seen = asyncio.Event()

    async def is_making_progress(self) -> bool:
        look = next(self._looks, None)
        if look is None:
            self.all_seen.set()
            await asyncio.Event().wait()
        return bool(look)


def _fed(monkeypatch: pytest.MonkeyPatch, interval_s: float, *looks: bool) -> list[str]:
    heard: list[str] = []
    monkeypatch.setattr("agent.service.lifecycle.notify", heard.append)
    monkeypatch.setattr("agent.service.lifecycle.RECHECK_S", 0.0)

    async def run() -> None:
        pipeline = _Pipeline(*looks)
        feeding = asyncio.create_task(feed_watchdog(pipeline.is_making_progress, interval_s))
        await within(PATIENCE_S, pipeline.all_seen.wait())
        feeding.cancel()

    asyncio.run(run())
    return heard


def test_the_watchdog_is_fed_only_while_the_pipeline_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _fed(monkeypatch, 0.0, False, False, True, False, True) == [ALIVE, ALIVE]


def test_one_unlucky_look_is_followed_by_another_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _fed(monkeypatch, 0.0, False, True) == [ALIVE]
    assert _fed(monkeypatch, 1e9, False, False) == []


def test_without_a_watchdog_nothing_is_reported_and_nothing_looked_at() -> None:
    asyncio.run(feed_watchdog(_Pipeline().is_making_progress, None))
