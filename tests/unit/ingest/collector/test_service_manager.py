import socket
from pathlib import Path

import pytest

from ingest.collector.service_manager import READY, notify, watchdog_interval_s


@pytest.mark.parametrize("abstract", [False, True])
def test_the_manager_hears_what_it_is_told(tmp_path: Path, abstract: bool) -> None:
    name = f"@headgate-test-{tmp_path.name}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name.replace("@", "\0", 1) if abstract else name)
        notify(READY, {"NOTIFY_SOCKET": name})
        assert manager.recv(100) == b"READY=1"


def test_without_a_manager_nothing_happens(tmp_path: Path) -> None:
    notify(READY, {})
    notify(READY, {"NOTIFY_SOCKET": str(tmp_path / "no one")})


def test_the_watchdog_is_fed_twice_in_its_time() -> None:
    assert watchdog_interval_s({"WATCHDOG_USEC": "30000000"}) == 15
    assert watchdog_interval_s({}) is watchdog_interval_s({"WATCHDOG_USEC": "0"}) is None
