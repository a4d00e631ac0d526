import asyncio
import logging
from pathlib import Path

import pytest

from agent.rekeying import ask_to_rekey, is_asked_to_rekey, rekey_when_asked

STREAM, OTHER = "0xdevice/secret", "0xdevice/other"


def _run_until_taken(folder: Path, taken: list[str], count: int, problem: Exception | None = None) -> None:
    async def run() -> None:
        done = asyncio.Event()
        loop = asyncio.get_running_loop()

        def rekey(stream_id: str) -> None:
            taken.append(stream_id)
            if len(taken) >= count:
                loop.call_soon_threadsafe(done.set)
            if problem is not None:
                raise problem

        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            task = group.create_task(rekey_when_asked(folder, rekey))
            await done.wait()
            await asyncio.to_thread(lambda: None)  # the thread that granted it has ended its round
            task.cancel()

    asyncio.run(run())


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.rekeying.CHECK_S", 0.001)


def test_each_request_is_granted_once(tmp_path: Path) -> None:
    for stream_id in (STREAM, OTHER, STREAM):
        ask_to_rekey(tmp_path, stream_id)
    taken: list[str] = []
    _run_until_taken(tmp_path, taken, 2)
    assert sorted(taken) == sorted([STREAM, OTHER])


@pytest.mark.parametrize("problem", [KeyError(STREAM), OSError(28, "No space left on device")])
def test_a_request_that_cannot_be_granted_stays_and_is_complained_of_once(
    tmp_path: Path, problem: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    ask_to_rekey(tmp_path, STREAM)
    with caplog.at_level(logging.ERROR):
        _run_until_taken(tmp_path, [], 5, problem)
    assert is_asked_to_rekey(tmp_path, STREAM)
    assert len(caplog.records) == 1


def test_a_file_that_is_no_request_harms_nothing(tmp_path: Path) -> None:
    (tmp_path / "noise").write_bytes(b"\xff" * 5000)
    (tmp_path / "folder").mkdir()
    taken: list[str] = []
    _run_until_taken(tmp_path, taken, 2, KeyError("no such stream"))
    assert set(taken) == {"\ufffd" * 1024}
