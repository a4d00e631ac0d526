"""Reporting to systemd: one implementation for agent, node and collector."""

import contextlib
import socket
from pathlib import Path

import pytest

from runtime.service_manager import ALIVE, READY, notify, reloading, watchdog_interval_s

MAX_NAME = 100  # of a socket in the file system, about


@pytest.mark.parametrize("abstract", [False, True])
def test_a_state_arrives_by_either_kind_of_socket(tmp_path: Path, *, abstract: bool) -> None:
    name = f"@headgate-test-{tmp_path.name}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name.replace("@", "\0", 1) if abstract else name)
        notify(READY, {"NOTIFY_SOCKET": name})
        assert manager.recv(100) == b"READY=1"


@pytest.mark.parametrize("name", ["missing", "closed", "x" * 200])
def test_a_manager_that_is_gone_stops_no_service_and_hears_of_it_when_it_is_back(tmp_path: Path, name: str) -> None:
    environment = {"NOTIFY_SOCKET": str(tmp_path / name)}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "closed"))
    notify(ALIVE, environment)
    if len(name) > MAX_NAME:
        return  # no socket can have it
    (tmp_path / name).unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / name))
        notify(ALIVE, environment)
        assert manager.recv(100) == b"WATCHDOG=1"


def test_a_manager_that_does_not_read_is_not_waited_for(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        for _ in range(2_000):
            notify(ALIVE, {"NOTIFY_SOCKET": str(tmp_path / "notify")})
        manager.setblocking(False)
        arrived = 0
        with contextlib.suppress(BlockingIOError):
            while manager.recv(100) == b"WATCHDOG=1":
                arrived += 1
        assert 0 < arrived < 2_000, "what had no room was dropped"


def test_a_service_without_a_manager_opens_no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    monkeypatch.setattr("runtime.service_manager.socket.socket", opened.append)
    notify(READY, {})
    assert opened == []


def test_no_free_descriptor_stops_no_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[object] = []

    def fail(*kind: object) -> None:
        tried.append(kind)
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("runtime.service_manager.socket.socket", fail)
    notify(ALIVE, {"NOTIFY_SOCKET": str(tmp_path / "notify")})
    assert tried, "it was tried, and the failure kept to itself"


def test_a_reload_carries_the_moment_it_began() -> None:
    assert reloading().startswith("RELOADING=1\nMONOTONIC_USEC=")


def test_the_watchdog_is_fed_twice_in_its_time() -> None:
    assert watchdog_interval_s({"WATCHDOG_USEC": "30000000"}) == 15
    for text in ("", "0", "soon"):
        assert watchdog_interval_s({"WATCHDOG_USEC": text}) is None
    assert watchdog_interval_s({}) is None
