"""A collector process over restarts, kills and a restored backup: what it answers about the log of a device."""

import hashlib
import http.client
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from protocol.archive.receipt import Receipt
from protocol.devicelog.answer import HeartbeatAnswer, LogStatus
from protocol.devicelog.checkpoint import Checkpoint
from protocol.shipping import archive_path, checkpoint_path
from tests.support.collector_process import HEADGATE, PROJECT, CollectorProcess, collector_process, make_state
from tests.support.collectors import Reply, claim_for, read_reply
from tests.support.logging_device import LoggingDevice
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.slow  # each starts processes


class Client:
    def __init__(self, running: CollectorProcess, collector_key: bytes) -> None:
        self._running = running
        self._collector_key = collector_key

    def put(self, data: bytes) -> Reply:
        claim = claim_for(data, collector_key=self._collector_key)
        return self._ask(archive_path(claim.archive), data, {"Authorization": claim.to_header()})

    def beat(self, checkpoint: Checkpoint) -> HeartbeatAnswer:
        reply = self._ask(checkpoint_path(checkpoint.log), checkpoint.to_bytes(), {})
        assert reply.status == 200, reply
        answer = HeartbeatAnswer.from_bytes(reply.body)
        digest = hashlib.sha256(checkpoint.to_bytes()).digest()
        assert answer.answers(checkpoint=digest, log=checkpoint.log, collector_key=self._collector_key)
        return answer

    def _ask(self, path: str, data: bytes, headers: dict[str, str]) -> Reply:
        client = http.client.HTTPConnection(*self._running.address, timeout=PATIENCE_S)
        try:
            client.request("PUT", path, data, headers)
            return read_reply(client.getresponse())
        finally:
            client.close()


def shown_logs(root: Path) -> list[dict[str, Any]]:
    """What an operator sees, beside the running collector."""
    command = [*HEADGATE, "collector", "logs", "--json", "--state", str(root / "state")]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_archives_that_are_withheld_out_of_order_or_forked_over_restarts(tmp_path: Path) -> None:
    key = make_state(tmp_path).signing
    device = LoggingDevice()
    device.archives_made(2)
    clone = device.copy(b"clone")
    device.archives_made(4)
    forked = clone.archive()
    with collector_process(tmp_path) as running:
        client = Client(running, key)
        for number in (4, 0, 2):
            assert client.put(device.archives[number]).status == 201
        running.kill()
    with collector_process(tmp_path) as running:
        client = Client(running, key)
        answer = client.beat(device.checkpoint(waiting=1))
        assert (answer.status, answer.held_size) == (LogStatus.OK, 1)
        assert answer.missing == ((1, 2), (3, 4), (5, 6))
        (shown,) = shown_logs(tmp_path)
        assert (shown["held_size"], shown["archives"], shown["missing"]) == (1, 3, [[1, 2], [3, 4]])
        assert (shown["missing_readings"], shown["checkpoint"]["size"], shown["forks"]) == (40, 6, [])
        assert client.put(forked).code == "log-forked"
        running.kill()
    with collector_process(tmp_path) as running:
        client = Client(running, key)
        for number in (3, 1, 5):
            receipt = Receipt.from_bytes(client.put(device.archives[number]).body)
        assert (receipt.held_size, receipt.held_root) == (6, device.head.frontier.root)
        answer = client.beat(device.checkpoint())
        assert (answer.status, answer.held_size, answer.missing) == (LogStatus.FORKED, 6, ())
        assert running.stop() == 0
    (shown,) = shown_logs(tmp_path)
    (fork,) = shown["forks"]
    assert (fork["subject"], fork["number"], fork["other"]) == ("archive", 2, hashlib.sha256(forked).hexdigest())
    assert (shown["missing"], shown["missing_readings"]) == ([], 0)


def test_a_state_restored_from_an_older_copy_says_what_it_lacks_and_accepts_it_again(tmp_path: Path) -> None:
    key = make_state(tmp_path).signing
    device = LoggingDevice()
    archives = device.archives_made(5)
    with collector_process(tmp_path) as running:
        client = Client(running, key)
        for data in archives[:3]:
            assert client.put(data).status == 201
        shutil.copytree(tmp_path / "state", tmp_path / "backup", copy_function=shutil.copy2)
        receipts = [Receipt.from_bytes(client.put(data).body) for data in archives[3:]]
        assert receipts[-1].held_size == 5
        running.kill()
    shutil.rmtree(tmp_path / "state")
    (tmp_path / "backup").rename(tmp_path / "state")
    (tmp_path / "landing" / f"{hashlib.sha256(archives[4]).hexdigest()}.hga").unlink()
    with collector_process(tmp_path) as running:
        client = Client(running, key)
        answer = client.beat(device.checkpoint())  # the device has a receipt for all five
        assert (answer.status, answer.held_size, answer.missing) == (LogStatus.OK, 3, ((3, 5),))
        assert shown_logs(tmp_path)[0]["missing"] == [[3, 5]]
        assert client.put(archives[3]).status == 200  # it is still in the landing area
        assert client.put(archives[4]).status == 201
        answer = client.beat(device.checkpoint(not_archived=6))
        assert (answer.held_size, answer.held_root, answer.missing) == (5, device.head.frontier.root, ())
        assert running.stop() == 0


def test_heartbeats_while_the_collector_is_killed_again_and_again(tmp_path: Path) -> None:
    key = make_state(tmp_path).signing
    device = LoggingDevice()
    for number in range(4):
        data = device.archive()
        with collector_process(tmp_path) as running:
            client = Client(running, key)
            assert client.put(data).status == 201
            answer = client.beat(device.checkpoint())
            assert (answer.status, answer.held_size) == (LogStatus.OK, number + 1)
            running.kill()
        (stored,) = (tmp_path / "landing").glob("*.checkpoint")
        assert stored.read_bytes() == device.checkpoint().to_bytes()
