"""Unauthenticated clients against a collector process: an enrolled device must still get in, at the usual cost."""

import contextlib
import http.client
import random
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from ingest.collector.devices import AllowList, Device
from protocol.binding import sign_binding
from protocol.ethereum import Signer
from protocol.shipping import UploadClaim, archive_path, sign_claim
from runtime.http import HttpLimits
from testbed.processes import free_port
from tests.effort import effort
from tests.support.archives import ARCHIVE_KEY, record, sign, write_archive
from tests.support.collector_process import CollectorProcess, collector_process, make_state
from tests.support.collectors import claim_statement
from tests.support.patience import PATIENCE_S

MAX_HEAD_BYTES = HttpLimits().max_head_bytes
ARCHIVE = write_archive([record(number) for number in range(50)])
PIPELINED = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 2000
OTHER = Signer(b"\x77" * 32)


def claim_to(archive: bytes, collector_key: bytes) -> UploadClaim:
    return sign_claim(claim_statement(archive, collector_key=collector_key), sign)


def ask(collector: CollectorProcess, method: str, claim: UploadClaim, body: bytes | None = None) -> int:
    client = http.client.HTTPConnection(*collector.address, timeout=PATIENCE_S)
    try:
        client.request(method, archive_path(claim.archive), body, {"Authorization": claim.to_header()})
        return client.getresponse().status
    finally:
        client.close()


def send_until_blocked(link: socket.socket) -> None:
    """Fill the connection with requests whose answers are never read."""
    link.settimeout(0.05)
    with contextlib.suppress(OSError):
        while True:
            link.sendall(PIPELINED)


@pytest.mark.slow
def test_clients_that_never_read_their_answers_lock_no_device_out(tmp_path: Path) -> None:
    key = make_state(tmp_path).signing
    limits = ("--max-connections", "40", "--max-connections-per-address", "40")
    with collector_process(tmp_path, *limits) as collector, ExitStack() as links:
        hostile = [
            links.enter_context(socket.create_connection(collector.address, timeout=PATIENCE_S)) for _ in range(44)
        ]
        for link in hostile:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            send_until_blocked(link)
        for number in range(effort(test=2, soak=200)):
            archive = write_archive([record(number)])
            assert ask(collector, "PUT", claim_to(archive, key), archive) == 201


def test_one_address_gets_no_more_than_its_share_of_connections(tmp_path: Path) -> None:
    key = make_state(tmp_path).signing
    limits = ("--max-connections", "20", "--max-connections-per-address", "5")
    with collector_process(tmp_path, *limits) as collector, ExitStack() as links:
        hostile = [
            links.enter_context(socket.create_connection(collector.address, timeout=PATIENCE_S)) for _ in range(12)
        ]
        closed = [link for link in hostile[:7] if link.recv(1) == b""]  # pushed out by those after them
        assert len(closed) == 7
        assert ask(collector, "PUT", claim_to(ARCHIVE, key), ARCHIVE) == 201


def test_monitoring_on_a_listener_of_its_own_is_not_served_beside_the_archives(tmp_path: Path) -> None:
    make_state(tmp_path)
    port = free_port()
    with collector_process(tmp_path, "--monitoring-listen", f"127.0.0.1:{port}") as collector:
        assert status_of(collector.address, "/metrics") == 404
        assert status_of(collector.address, "/healthz") == 404
        assert status_of(("127.0.0.1", port), "/metrics") == 200
        assert status_of(("127.0.0.1", port), "/healthz") == 200
        assert status_of(("127.0.0.1", port), "/archives/" + "0" * 64) == 404


def test_monitoring_answers_also_where_the_disk_does_not(tmp_path: Path) -> None:
    make_state(tmp_path)
    port = free_port()
    with collector_process(tmp_path, "--monitoring-listen", f"127.0.0.1:{port}"):
        (tmp_path / "landing.uploads").rmdir()
        assert status_of(("127.0.0.1", port), "/healthz") == 500
        assert status_of(("127.0.0.1", port), "/metrics") == 500


@pytest.mark.parametrize("padding", [MAX_HEAD_BYTES + 1, 20_000, 60_000])
def test_a_head_above_the_limit_is_refused_even_when_it_comes_in_one_piece(tmp_path: Path, padding: int) -> None:
    make_state(tmp_path)
    with (
        collector_process(tmp_path) as collector,
        socket.create_connection(collector.address, timeout=PATIENCE_S) as link,
    ):
        link.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Padding: " + b"a" * padding + b"\r\n\r\n")
        assert link.recv(100).startswith(b"HTTP/1.1 431")


def test_a_head_just_below_the_limit_is_served(tmp_path: Path) -> None:
    make_state(tmp_path)
    start, end = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Padding: ", b"\r\n\r\n"
    with (
        collector_process(tmp_path) as collector,
        socket.create_connection(collector.address, timeout=PATIENCE_S) as link,
    ):
        link.sendall(start + b"a" * (MAX_HEAD_BYTES - len(start) - len(end)) + end)
        assert link.recv(100).startswith(b"HTTP/1.1 200")


def test_asking_for_the_archive_of_another_device_does_not_hash_it(tmp_path: Path) -> None:
    key = make_state(tmp_path).signing
    thief = sign_binding(OTHER, bytes(ARCHIVE_KEY.verify_key))
    AllowList(tmp_path / "state" / "devices").enrol(
        Device(address=thief.address, enrolled_at_ms=1, archive_key=thief.archive_key)
    )
    noise = random.Random(1)
    large = write_archive([record(number, text=noise.randbytes(250_000)) for number in range(40)])
    claim = sign_claim(claim_statement(large, binding=thief, collector_key=key), sign)
    with collector_process(tmp_path) as collector:
        assert ask(collector, "PUT", claim_to(large, key), large) == 201
        before = bytes_read_by(collector)
        for _ in range(5):
            assert ask(collector, "HEAD", claim) == 200
        assert bytes_read_by(collector) - before < len(large) / 10


def status_of(address: tuple[str, int], path: str) -> int:
    client = http.client.HTTPConnection(*address, timeout=PATIENCE_S)
    try:
        client.request("GET", path)
        return client.getresponse().status
    finally:
        client.close()


def bytes_read_by(collector: CollectorProcess) -> int:
    """By all read calls of the process since its start."""
    counters = Path(f"/proc/{collector.process.pid}/io").read_text()
    return int(counters.split("rchar: ")[1].split()[0])
