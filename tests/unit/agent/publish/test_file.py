import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent.errors import LinkDown
from agent.publish.contract import Acknowledged, Outcome, RejectedRun
from agent.publish.file import FilePublisher
from agent.publish.rotation import rotated
from tests.support.descriptors import many_descriptors
from tests.support.publish_records import record


def publish(publisher: FilePublisher, *payloads: bytes) -> list[Outcome]:
    async def scenario() -> list[Outcome]:
        await publisher.connect()
        try:
            await publisher.send([record(number, payload=payload) for number, payload in enumerate(payloads)])
            return list(await publisher.outcomes())
        finally:
            await publisher.close()

    return asyncio.run(scenario())


def test_lines_are_added_to_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    assert publish(FilePublisher("file", path), b"[1]", b"[2]") == [Acknowledged(0, 0, 1)]
    publish(FilePublisher("file", path), b"[3]")
    assert path.read_bytes() == b"[1]\n[2]\n[3]\n"


def test_a_message_that_makes_more_than_a_line_is_refused_alone(tmp_path: Path) -> None:
    first, second, third = publish(FilePublisher("file", tmp_path / "out.jsonl"), b"[1]", b"[2]", b"[\n3]", b"[4]")
    assert (first, third) == (Acknowledged(0, 0, 1), Acknowledged(0, 3, 3))
    assert isinstance(second, RejectedRun)
    assert second[:3] == (0, 2, 2)
    assert (tmp_path / "out.jsonl").read_bytes() == b"[1]\n[2]\n[4]\n"


def test_a_line_that_a_crash_cut_short_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_bytes(b"[1]\n[2")
    publish(FilePublisher("file", path), b"[2]")
    assert path.read_bytes() == b"[1]\n[2\n[2]\n"


def run_of_batches(publisher: FilePublisher, count: int, batch: int = 1) -> FilePublisher:
    """One connection, `count` messages of ten bytes in batches."""

    async def scenario() -> FilePublisher:
        await publisher.connect()
        for first in range(0, count, batch):
            numbers = range(first, min(first + batch, count))
            await publisher.send([record(number, payload=b"%9d" % number) for number in numbers])
        await publisher.close()
        return publisher

    return asyncio.run(scenario())


def numbers_in(*paths: Path) -> list[int]:
    return [int(line) for path in paths for line in path.read_text().splitlines()]


def test_a_full_file_is_numbered_and_a_new_one_begins(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    publisher = run_of_batches(FilePublisher("file", path, max_bytes=400), 25)
    assert numbers_in(*rotated(path), path) == list(range(25))
    assert [each.name for each in rotated(path)] == ["out.jsonl.1", "out.jsonl.2"]
    assert publisher.removed == 0


@pytest.mark.parametrize("batch", [1, 3, 9, 15, 40])
def test_beyond_the_limit_the_oldest_lines_go_and_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, batch: int
) -> None:
    path = tmp_path / "out.jsonl"
    publisher = run_of_batches(FilePublisher("file", path, max_bytes=400), 200, batch)
    assert sum(each.stat().st_size for each in tmp_path.iterdir()) <= 400
    kept = numbers_in(*rotated(path), path)
    assert kept == list(range(200 - len(kept), 200))
    assert publisher.removed == 200 - len(kept)
    assert "limit reached" in caplog.text


def test_files_of_others_beside_it_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    for name in ("out.jsonl.bak", "out.jsonl.0x1", "out.jsonl.gz.1"):
        (tmp_path / name).write_text("mine\n")
    run_of_batches(FilePublisher("file", path, max_bytes=400), 200)
    assert all((tmp_path / name).exists() for name in ("out.jsonl.bak", "out.jsonl.0x1", "out.jsonl.gz.1"))


def test_in_a_directory_the_oldest_messages_go_and_are_counted(tmp_path: Path) -> None:
    publisher = run_of_batches(FilePublisher("file", tmp_path / "out", form="directory", max_bytes=400), 200)
    kept = sorted(int(each.read_bytes()) for each in (tmp_path / "out").iterdir())
    assert sum(each.stat().st_size for each in (tmp_path / "out").iterdir()) <= 400
    assert kept == list(range(200 - len(kept), 200))
    assert publisher.removed == 200 - len(kept)


def test_a_directory_has_a_file_for_each_message_and_nothing_else(tmp_path: Path) -> None:
    publish(FilePublisher("file", tmp_path / "out", form="directory"), b"[1]", b"[2\n]")
    found = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert found == {"00-0000000000000000.json": b"[1]", "00-0000000000000001.json": b"[2\n]"}


def test_a_pipe_without_a_reader_is_a_link_that_is_down(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LinkDown, match="pipe"):
        publish(FilePublisher("file", tmp_path / "pipe"), b"[1]")


def test_a_pipe_passes_lines_to_its_reader(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        publish(FilePublisher("file", tmp_path / "pipe"), b"[1]")
        assert os.read(reader, 100) == b"[1]\n"
    finally:
        os.close(reader)


def test_a_slow_reader_of_a_pipe_is_waited_for_with_any_descriptor(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    message = b"[%s]" % (b"1" * 200_000)  # more than a pipe holds
    with many_descriptors(), ThreadPoolExecutor() as pool:
        with (tmp_path / "pipe").open("r+b", buffering=0):  # until the publisher has opened it too
            reading = pool.submit((tmp_path / "pipe").read_bytes)
            assert publish(FilePublisher("file", tmp_path / "pipe"), message) == [Acknowledged(0, 0, 0)]
        assert reading.result() == message + b"\n"
