"""Status snapshots of the page: one query of the journal for all clients."""

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from agent.service.page import page as page_module
from agent.service.page.page import StatusSnapshots

if TYPE_CHECKING:
    from agent.clock import Clock
    from agent.pipeline import Pipeline


def make_snapshots(monkeypatch: pytest.MonkeyPatch, collect: Any) -> StatusSnapshots:
    monkeypatch.setattr(page_module, "collect_status", collect)
    return StatusSnapshots(cast("Pipeline", None), cast("Clock", None))


def test_many_clients_cost_one_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []

    async def collect(*_: object) -> dict[str, Any]:
        taken.append(1)
        await asyncio.sleep(0)
        return {"messages": len(taken)}

    async def run() -> list[Any]:
        snapshots = make_snapshots(monkeypatch, collect)
        together = await asyncio.gather(*(snapshots.latest() for _ in range(10)))
        monkeypatch.setattr(page_module, "FRESH_S", 0.0)
        return [*together, await snapshots.latest()]

    assert asyncio.run(run()) == [{"messages": 1}] * 10 + [{"messages": 2}]


def test_a_journal_that_does_not_respond_is_queried_once_and_delays_no_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(page_module, "STATUS_TIMEOUT_S", 0.01)
    monkeypatch.setattr(page_module, "FRESH_S", 0.0)
    answers, asked = asyncio.Event(), []

    async def collect(*_: object) -> dict[str, Any]:
        asked.append(1)
        await answers.wait()
        return {"is_making_progress": True}

    async def run() -> None:
        snapshots = make_snapshots(monkeypatch, collect)
        assert await snapshots.latest() is None
        assert await snapshots.latest() is None
        assert len(asked) == 1
        answers.set()
        assert await snapshots.latest() == {"is_making_progress": True}

    asyncio.run(run())


def test_a_fault_is_raised_to_the_caller_and_the_next_snapshot_is_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = iter([OSError("the disk is gone"), None])

    async def collect(*_: object) -> dict[str, Any]:
        if problem := next(outcomes):
            raise problem
        return {}

    async def run() -> None:
        snapshots = make_snapshots(monkeypatch, collect)
        with pytest.raises(OSError, match="gone"):
            await snapshots.latest()
        assert await snapshots.latest() == {}

    asyncio.run(run())
