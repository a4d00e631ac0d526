import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agent.clock import SystemClock
from agent.config.configuration import Config, load_config
from agent.errors import StorageError
from agent.keys import DeviceKeys
from agent.pipeline import RELOAD_TASK, Pipeline
from drivers import Driver, Reading, build_driver
from tests.support.patience import PATIENCE_S
from tests.support.within import within

CONFIGURATION = """
[device]
name = "bench"
data_directory = "data"
[journal]
max_megabytes = 4
segment_kilobytes = 64
[drivers.boiler]
driver = "simulated"
rate_hz = 20
signals = [{ quantity = "temperature", kind = "walk" }]
[publishers.out]
kind = "file"
path = "out.jsonl"
[page]
listen = "off"
"""


def _config(folder: Path, text: str = CONFIGURATION) -> Config:
    path = folder / "headgate.toml"
    path.write_text(text)
    return load_config(path)


def _keys() -> DeviceKeys:
    return DeviceKeys.generate(secrets.token_bytes)


def _run(pipeline: Pipeline, change: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    async def run() -> None:
        stop = asyncio.Event()

        async def companion() -> None:
            await change(stop)

        await within(PATIENCE_S, pipeline.run(stop, {RELOAD_TASK: companion()}))

    asyncio.run(run())


def test_a_stop_while_a_new_configuration_is_taken_is_a_stop_in_order(tmp_path: Path) -> None:
    pipeline = Pipeline(_config(tmp_path), _keys(), SystemClock())
    changed = _config(tmp_path, CONFIGURATION.replace("rate_hz = 20", "rate_hz = 30"))

    async def change(stop: asyncio.Event) -> None:
        await asyncio.sleep(0.2)
        stop.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # now the collectors are being stopped
        await pipeline.apply(changed)

    _run(pipeline, change)
    assert pipeline.committer.status.problem == ""


def test_a_pipeline_that_cannot_be_opened_lets_go_of_all_it_had(tmp_path: Path) -> None:
    (tmp_path / "in the way").touch()
    impossible = _config(tmp_path, CONFIGURATION + '[archive]\ndirectory = "in the way"\n')
    with pytest.raises(FileExistsError):
        Pipeline(impossible, _keys(), SystemClock())
    pipeline = Pipeline(_config(tmp_path), _keys(), SystemClock())

    async def change(stop: asyncio.Event) -> None:
        stop.set()

    _run(pipeline, change)


def test_a_second_agent_on_the_same_data_directory_is_refused_wherever_its_journal_lies(tmp_path: Path) -> None:
    first = Pipeline(_config(tmp_path), _keys(), SystemClock())
    elsewhere = CONFIGURATION.replace("[journal]", '[journal]\ndirectory = "another journal"')
    with pytest.raises(StorageError, match=r"another agent .* is using this data directory"):
        Pipeline(_config(tmp_path, elsewhere), _keys(), SystemClock())

    async def change(stop: asyncio.Event) -> None:
        stop.set()

    _run(first, change)
    _run(Pipeline(_config(tmp_path, elsewhere), _keys(), SystemClock()), change)


class _Stubborn(Driver):
    """Reads nothing, and swallows more cancellations than it gets, until it may end."""

    def __init__(self) -> None:
        super().__init__("boiler")
        self.is_reading = asyncio.Event()
        self.may_end = asyncio.Event()

    async def open(self) -> None: ...

    async def read(self) -> list[Reading]:
        self.is_reading.set()
        for _ in range(4):
            with contextlib.suppress(asyncio.CancelledError):
                await self.may_end.wait()
        return []

    async def close(self) -> None: ...


@pytest.fixture
def stubborn(monkeypatch: pytest.MonkeyPatch) -> _Stubborn:
    """In place of the first driver that is built; the limits are short."""
    driver = _Stubborn()
    drivers = iter([driver])
    monkeypatch.setattr("agent.pipeline.build_driver", lambda *given: next(drivers, None) or build_driver(*given))
    monkeypatch.setattr("agent.pipeline.STOP_READING_S", 0.01)
    monkeypatch.setattr("runtime.stopping.LEAVE_LIMIT_S", 0.01)
    monkeypatch.setattr("runtime.stopping.SECOND_TRY_S", 0.01)
    return driver


def test_a_driver_that_does_not_stop_fails_the_reload_and_the_next_one_succeeds(
    tmp_path: Path, stubborn: _Stubborn
) -> None:
    pipeline = Pipeline(_config(tmp_path), _keys(), SystemClock())
    before = pipeline.config
    changed = _config(tmp_path, CONFIGURATION.replace("rate_hz = 20", "rate_hz = 30"))

    async def change(stop: asyncio.Event) -> None:
        await stubborn.is_reading.wait()
        assert await pipeline.apply(changed) == ["collect: boiler"]
        assert pipeline.config == before
        assert pipeline.collectors["boiler"].driver is stubborn
        stubborn.may_end.set()
        assert await pipeline.apply(changed) == []
        assert pipeline.config == changed
        assert pipeline.collectors["boiler"].driver is not stubborn
        stop.set()

    _run(pipeline, change)


def test_a_driver_is_not_replaced_while_its_readings_cannot_be_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its source would send them once more to the next one, which would read them again."""
    monkeypatch.setattr("agent.pipeline.COMMIT_S", 0.05)
    pipeline = Pipeline(_config(tmp_path), _keys(), SystemClock())
    changed = _config(tmp_path, CONFIGURATION.replace("rate_hz = 20", "rate_hz = 30"))
    commit = pipeline.journal.journal.commit

    def fail(_now_ms: int) -> None:
        raise StorageError("the disk fails")

    async def change(stop: asyncio.Event) -> None:
        monkeypatch.setattr("agent.commit.RETRY_S", 0.01)
        monkeypatch.setattr(pipeline.journal.journal, "commit", fail)
        while not pipeline.committer.status.problem:  # noqa: ASYNC110 - no event says so
            await asyncio.sleep(0.01)
        driver = pipeline.collectors["boiler"].driver
        assert await pipeline.apply(changed) == ["collect: boiler"]
        assert pipeline.collectors["boiler"].driver is driver
        monkeypatch.setattr(pipeline.journal.journal, "commit", commit)
        monkeypatch.setattr("agent.pipeline.COMMIT_S", 10.0)
        assert await pipeline.apply(changed) == []
        assert pipeline.collectors["boiler"].driver is not driver
        stop.set()

    _run(pipeline, change)


def test_a_driver_that_does_not_stop_is_left_behind_and_named(
    tmp_path: Path, stubborn: _Stubborn, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = Pipeline(_config(tmp_path), _keys(), SystemClock())

    async def run() -> None:
        stop = asyncio.Event()

        async def stop_while_reading() -> None:
            await stubborn.is_reading.wait()
            stop.set()

        await within(PATIENCE_S, pipeline.run(stop, {"stopping": stop_while_reading()}))
        stubborn.may_end.set()  # or the loop could not end

    asyncio.run(run())
    assert "still runs; task=collect: boiler" in caplog.text


def test_a_driver_that_does_not_stop_does_not_hold_up_the_end_of_a_pipeline_that_failed(
    tmp_path: Path, stubborn: _Stubborn
) -> None:
    pipeline = Pipeline(_config(tmp_path), _keys(), SystemClock())

    async def fail() -> None:
        await stubborn.is_reading.wait()
        raise OSError("no space")

    async def run() -> None:
        with pytest.raises(ExceptionGroup) as failed:
            await within(PATIENCE_S, pipeline.run(asyncio.Event(), {"failing": fail()}))
        assert [str(error) for error in failed.value.exceptions] == ["no space"]
        stubborn.may_end.set()

    asyncio.run(run())
