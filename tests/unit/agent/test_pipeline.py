import asyncio
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agent.clock import SystemClock
from agent.config import Config, load_config
from agent.keys import DeviceKeys
from agent.pipeline import CHANGING, Pipeline

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

        await asyncio.wait_for(pipeline.run(stop, {CHANGING: companion()}), 30)

    asyncio.run(run())


def test_a_stop_while_a_new_configuration_is_taken_is_a_stop_in_order(tmp_path: Path) -> None:
    pipeline = Pipeline(_config(tmp_path), _keys(), SystemClock())
    changed = _config(tmp_path, CONFIGURATION.replace("rate_hz = 20", "rate_hz = 30"))

    async def change(stop: asyncio.Event) -> None:
        await asyncio.sleep(0.2)
        stop.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # now the collectors are being stopped
        await pipeline.take(changed)

    _run(pipeline, change)
    assert pipeline.keeper.status.problem == ""


def test_a_pipeline_that_cannot_be_opened_lets_go_of_all_it_had(tmp_path: Path) -> None:
    (tmp_path / "in the way").touch()
    impossible = _config(tmp_path, CONFIGURATION + '[archive]\ndirectory = "in the way"\n')
    with pytest.raises(FileExistsError):
        Pipeline(impossible, _keys(), SystemClock())
    pipeline = Pipeline(_config(tmp_path), _keys(), SystemClock())

    async def change(stop: asyncio.Event) -> None:
        stop.set()

    _run(pipeline, change)
