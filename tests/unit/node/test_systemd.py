"""Telling systemd."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

from node.systemd import notify, pat_watchdog_forever


def test_nothing_happens_where_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify("READY=1")


@pytest.mark.parametrize("abstract", [False, True])
def test_what_is_said_arrives_by_either_kind_of_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, abstract: bool
) -> None:
    path = os.fspath(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind("\0" + path if abstract else path)
        monkeypatch.setenv("NOTIFY_SOCKET", "@" + path if abstract else path)
        notify("READY=1")

        assert channel.recv(100) == b"READY=1"


def test_the_watchdog_is_not_told_that_all_is_well_when_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = os.fspath(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", path)
    monkeypatch.setenv("WATCHDOG_USEC", "3000")
    answers = iter([True, False, False, True])

    async def pat_four_times() -> None:
        with pytest.raises(RuntimeError):  # what a coroutine makes of the end of the answers
            await pat_watchdog_forever(lambda: next(answers))

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(path)
        asyncio.run(pat_four_times())
        channel.setblocking(False)
        heard = [channel.recv(100), channel.recv(100)]
        with pytest.raises(BlockingIOError):
            channel.recv(100)

    assert heard == [b"WATCHDOG=1", b"WATCHDOG=1"]
