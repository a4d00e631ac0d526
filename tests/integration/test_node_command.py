"""`headgate node` as its operator meets it: started, looked into, stopped."""

import json
import os
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.commands import node_arguments, running
from tests.support.patience import PATIENCE_S

LISTENS = r"node listens; address=(\S+)"


def headgate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "agent", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_it_starts_without_settings_on_a_free_port_and_ends_cleanly(tmp_path: Path) -> None:
    with running(*node_arguments(tmp_path / "data")) as node:
        address = node.wait_for(LISTENS)
        with urllib.request.urlopen(f"http://{address}/", timeout=PATIENCE_S) as response:
            page = response.read().decode()
            policy = response.headers["Content-Security-Policy"]

        assert node.stop() == 0
    assert "Headgate node" in page
    assert "<script" not in page
    assert re.fullmatch(r"default-src 'none'; style-src 'sha256-[^']+'; .*frame-ancestors 'none'", policy)
    assert headgate("node", "stat", "--data", str(tmp_path / "data")).returncode == 0


def test_it_says_where_it_listens_in_json(tmp_path: Path) -> None:
    with running(*node_arguments(tmp_path / "data", "--json")) as node:
        assert node.wait_for(r'^(\{"listen": "127\.0\.0\.1:\d+"\})$')


@pytest.mark.slow
def test_streams_permissions_and_sums_are_shown_from_the_settings_on(tmp_path: Path) -> None:
    settings = tmp_path / "node.toml"
    settings.write_text('[[streams]]\nid = "boiler"\npartitions = 3\nsubscribers = ["public"]\n')
    data = tmp_path / "data"
    with running(*node_arguments(data, "--config", str(settings))) as node:
        node.wait_for(LISTENS)
        while_running = headgate("node", "streams", "--data", str(data))
        node.stop()

    assert while_running.stdout.splitlines()[1].split() == ["boiler", "configuration", "3", "no", "no", "-", "0", "0"]
    assert json.loads(headgate("node", "permissions", "--json", "--data", str(data)).stdout) == [
        {"number": 1, "stream": "boiler", "user": "public", "operation": "stream_subscribe"},
        {"number": 2, "stream": "boiler", "user": "public", "operation": "stream_get"},
    ]
    sums = json.loads(headgate("node", "stat", "--json", "--data", str(data)).stdout)
    assert (sums["streams"], sums["permissions"], sums["messages"]) == (1, 2, 0)


def test_wrong_settings_end_it_before_anything_is_opened(tmp_path: Path) -> None:
    settings = tmp_path / "node.toml"
    settings.write_text("[limits]\nmax_connection = 0\n[retention]\nmax_days = -1\n")
    done = headgate(*node_arguments(tmp_path / "data", "--config", str(settings)))

    assert done.returncode == 78
    assert "2 problems" in done.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("arguments", "exit_code", "problem"),
    [
        (["run", "--listen", "nowhere"], 78, "--listen: 'nowhere' is not HOST:PORT"),
        (["stat", "--data", "/nonexistent"], 74, "is this the data directory of a node?"),
        (["run", "--config", "/nonexistent.toml"], 66, "/nonexistent.toml: No such file"),
    ],
)
def test_what_cannot_work_is_said_in_one_line(arguments: list[str], exit_code: int, problem: str) -> None:
    done = headgate("node", *arguments)

    assert done.returncode == exit_code
    assert problem in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_systemd_is_notified_when_it_is_ready_and_when_it_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(os.fspath(tmp_path / "notify"))
        channel.settimeout(PATIENCE_S)
        monkeypatch.setenv("NOTIFY_SOCKET", os.fspath(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "300000")
        with running(*node_arguments(tmp_path / "data")) as node:
            heard = [channel.recv(100) for _ in range(3)]
            node.stop()
            while heard[-1] != b"STOPPING=1":
                heard.append(channel.recv(100))

    assert heard[0] == b"READY=1"
    assert set(heard[1:-1]) == {b"WATCHDOG=1"}


def test_a_notify_socket_that_is_gone_does_not_end_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", os.fspath(tmp_path / "gone"))
    with running(*node_arguments(tmp_path / "data")) as node:
        with urllib.request.urlopen(f"http://{node.wait_for(LISTENS)}/healthz", timeout=PATIENCE_S) as response:
            assert response.status == 200
        assert node.stop() == 0


def test_permissions_of_a_running_node_are_changed_at_once_and_for_good(tmp_path: Path) -> None:
    data, reader = tmp_path / "data", "0x" + "5" * 40
    settings = tmp_path / "node.toml"
    (tmp_path / "key").write_text("a key that is hard to guess")
    (tmp_path / "key").chmod(0o600)
    settings.write_text(f'[[api_keys]]\naddress = "0x{"1" * 40}"\nkey_file = "{tmp_path / "key"}"\n')
    stream = f"0x{'1' * 40}/boiler"

    def is_subscriber(address: str) -> bool:
        request = urllib.request.Request(
            f"http://{address}/api/v1/streams/{quote(stream, safe='')}/subscriber/{reader}"
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S):
                return True
        except urllib.error.HTTPError as refused:
            return refused.code != 404

    with running(*node_arguments(data, "--config", str(settings))) as node:
        address = node.wait_for(LISTENS)
        headers = {"Authorization": "token a key that is hard to guess"}
        body = json.dumps({"id": stream}).encode()
        made = urllib.request.Request(f"http://{address}/api/v1/streams", data=body, headers=headers)
        with urllib.request.urlopen(made, timeout=PATIENCE_S):
            assert not is_subscriber(address)
        done = headgate("node", "grant", stream, reader, "subscribe", "--data", str(data))
        assert (done.returncode, len(done.stdout.splitlines())) == (0, 2), done
        assert is_subscriber(address)
        assert headgate("node", "revoke", stream, reader, "subscribe", "--data", str(data)).returncode == 0
        assert not is_subscriber(address)
        refused = headgate("node", "grant", "nowhere", reader, "subscribe", "--data", str(data))
        assert (refused.returncode, refused.stderr) == (1, "headgate: Stream nowhere not found.\n")
        assert (data / "operator.json").stat().st_mode & 0o777 == 0o600
        node.stop()
    assert not (data / "operator.json").exists()
    listed = json.loads(headgate("node", "permissions", "--data", str(data), "--json").stdout)
    assert [entry["operation"] for entry in listed if entry["user"] == reader] == ["stream_get"]


@pytest.mark.slow
def test_a_message_acknowledged_by_http_survives_a_kill(tmp_path: Path) -> None:
    settings = tmp_path / "node.toml"
    settings.write_text('[[streams]]\nid = "open"\npublishers = ["public"]\nsubscribers = ["public"]\n')
    arguments = node_arguments(tmp_path / "data", "--config", str(settings))
    with running(*arguments) as node:
        base = f"http://{node.wait_for(LISTENS)}/api/v1/streams/open/data"
        for n in range(3):
            request = urllib.request.Request(base, data=b'{"n":%d}' % n, method="POST")
            with urllib.request.urlopen(request, timeout=PATIENCE_S):
                pass
        node.kill()
    with running(*arguments) as node:
        base = f"http://{node.wait_for(LISTENS)}/api/v1/streams/open/data"
        with urllib.request.urlopen(f"{base}/partitions/0/last?count=9", timeout=PATIENCE_S) as response:
            found = [entry["content"]["n"] for entry in json.load(response)]

    assert found == [0, 1, 2]
