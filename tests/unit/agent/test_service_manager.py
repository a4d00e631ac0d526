import socket
from pathlib import Path

from agent.service_manager import ALIVE, READY, notify, reloading, watchdog_interval_s


def test_the_manager_hears_what_it_is_told(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        notify(READY, {"NOTIFY_SOCKET": str(tmp_path / "notify")})
        assert manager.recv(100) == b"READY=1"


def test_a_deaf_manager_or_none_is_no_reason_to_stop(tmp_path: Path) -> None:
    notify(ALIVE, {})
    notify(ALIVE, {"NOTIFY_SOCKET": str(tmp_path / "nobody")})


def test_a_reload_carries_the_moment_it_began() -> None:
    assert reloading().startswith("RELOADING=1\nMONOTONIC_USEC=")


def test_the_watchdog_is_fed_twice_in_its_time() -> None:
    assert watchdog_interval_s({"WATCHDOG_USEC": "30000000"}) == 15
    assert watchdog_interval_s({}) is None
    assert watchdog_interval_s({"WATCHDOG_USEC": "soon"}) is None
