import asyncio
import os
from pathlib import Path

import pytest

from agent.errors import LinkDown
from agent.publish.contract import Acknowledged, Outcome, Refused
from agent.publish.file import FilePublisher, FileSettings
from tests.unit.agent.publish.records import record


def publish(settings: FileSettings, *payloads: bytes) -> list[Outcome]:
    async def scenario() -> list[Outcome]:
        publisher = FilePublisher("file", settings)
        await publisher.connect()
        try:
            await publisher.send([record(number, payload=payload) for number, payload in enumerate(payloads)])
            return list(await publisher.outcomes())
        finally:
            await publisher.close()

    return asyncio.run(scenario())


def test_lines_are_added_to_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    assert publish(FileSettings(path=path), b"[1]", b"[2]") == [Acknowledged(0, 0, 1)]
    publish(FileSettings(path=path), b"[3]")
    assert path.read_bytes() == b"[1]\n[2]\n[3]\n"


def test_a_message_that_makes_more_than_a_line_is_refused_alone(tmp_path: Path) -> None:
    first, second, third = publish(FileSettings(path=tmp_path / "out.jsonl"), b"[1]", b"[2]", b"[\n3]", b"[4]")
    assert (first, third) == (Acknowledged(0, 0, 1), Acknowledged(0, 3, 3))
    assert isinstance(second, Refused)
    assert second[:3] == (0, 2, 2)
    assert (tmp_path / "out.jsonl").read_bytes() == b"[1]\n[2]\n[4]\n"


def test_a_line_that_a_crash_cut_short_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_bytes(b"[1]\n[2")
    publish(FileSettings(path=path), b"[2]")
    assert path.read_bytes() == b"[1]\n[2\n[2]\n"


def test_a_directory_has_a_file_for_each_message_and_nothing_else(tmp_path: Path) -> None:
    publish(FileSettings(path=tmp_path / "out", form="directory"), b"[1]", b"[2\n]")
    found = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert found == {"00-0000000000000000.json": b"[1]", "00-0000000000000001.json": b"[2\n]"}


def test_a_pipe_without_a_reader_is_a_link_that_is_down(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LinkDown, match="pipe"):
        publish(FileSettings(path=tmp_path / "pipe"), b"[1]")


def test_a_pipe_passes_lines_to_its_reader(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        publish(FileSettings(path=tmp_path / "pipe"), b"[1]")
        assert os.read(reader, 100) == b"[1]\n"
    finally:
        os.close(reader)
