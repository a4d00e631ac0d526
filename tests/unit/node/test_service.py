"""The node as a whole."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

from node.config import NodeConfig
from node.service import Node


def test_the_watchdog_is_not_fed_while_nothing_can_be_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", os.fspath(tmp_path / "notify"))
    monkeypatch.setenv("WATCHDOG_USEC", "2000")
    node = Node(NodeConfig(data=tmp_path / "data"))
    failing_after = iter([False, True, True])

    async def sleep(_: float) -> None:
        try:
            node.counters.storage_failing = next(failing_after)
        except StopIteration:
            raise asyncio.CancelledError from None

    monkeypatch.setattr("node.service.asyncio.sleep", sleep)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(os.fspath(tmp_path / "notify"))
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(node._feed_watchdog_forever())
        manager.setblocking(False)
        heard = [manager.recv(100), manager.recv(100)]
        with pytest.raises(BlockingIOError):
            manager.recv(100)
    node.storage.close()

    assert heard == [b"WATCHDOG=1", b"WATCHDOG=1"]
