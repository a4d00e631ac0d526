"""One look for all who ask."""

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from agent.service.page import snapshots as looks_module
from agent.service.page.snapshots import StatusSnapshots

if TYPE_CHECKING:
    from agent.clock import Clock
    from agent.pipeline import Pipeline


def make_looks(monkeypatch: pytest.MonkeyPatch, collect: Any) -> StatusSnapshots:
    monkeypatch.setattr(looks_module, "collect_status", collect)
    return StatusSnapshots(cast("Pipeline", None), cast("Clock", None))


def test_many_watchers_cost_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []

    async def collect(*_: object) -> dict[str, Any]:
        taken.append(1)
        await asyncio.sleep(0)
        return {"messages": len(taken)}

    async def run() -> list[Any]:
        snapshots = make_looks(monkeypatch, collect)
        together = await asyncio.gather(*(snapshots.latest() for _ in range(10)))
        monkeypatch.setattr(looks_module, "FRESH_S", 0.0)
        return [*together, await snapshots.latest()]

    assert asyncio.run(run()) == [{"messages": 1}] * 10 + [{"messages": 2}]


def test_a_journal_that_does_not_answer_is_asked_once_and_never_holds_up_who_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(looks_module, "PATIENCE_S", 0.01)
    monkeypatch.setattr(looks_module, "FRESH_S", 0.0)
    answers, asked = asyncio.Event(), []

    async def collect(*_: object) -> dict[str, Any]:
        asked.append(1)
        await answers.wait()
        return {"is_moving": True}

    async def run() -> None:
        snapshots = make_looks(monkeypatch, collect)
        assert await snapshots.latest() is None
        assert await snapshots.latest() is None
        assert len(asked) == 1
        answers.set()
        assert await snapshots.latest() == {"is_moving": True}

    asyncio.run(run())


def test_a_fault_is_told_to_who_asked_and_the_next_look_is_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = iter([OSError("the disk is gone"), None])

    async def collect(*_: object) -> dict[str, Any]:
        if problem := next(outcomes):
            raise problem
        return {}

    async def run() -> None:
        snapshots = make_looks(monkeypatch, collect)
        with pytest.raises(OSError, match="gone"):
            await snapshots.latest()
        assert await snapshots.latest() == {}

    asyncio.run(run())
