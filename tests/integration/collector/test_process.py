"""The collector as a process: how it starts, refuses to start, stops, and speaks to its manager."""

import hashlib
import http.client
import os
import signal
import socket
import ssl
import subprocess
from pathlib import Path

import pytest
from cryptography import x509

from protocol.archive.receipt import Receipt
from protocol.shipping import archive_path
from tests.support.certificates import make_certificate
from tests.support.collector_process import PROJECT, collector_process, make_state, run_command
from tests.support.collectors import ARCHIVE, claim_for, claim_of, head_of, read_reply
from tests.support.patience import PATIENCE_S

HALF = len(ARCHIVE) // 2

pytestmark = pytest.mark.slow  # each starts a process


def refusal_to_start(root: Path, *options: str) -> str:
    done = subprocess.run(run_command(root, *options), cwd=PROJECT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (78, "")
    return done.stderr


def test_it_stops_on_sigterm_and_keeps_what_came_in(tmp_path: Path) -> None:
    claim = claim_for(ARCHIVE, collector_key=make_state(tmp_path).signing)
    with collector_process(tmp_path) as running, socket.create_connection(running.address) as idle:
        with socket.create_connection(running.address) as link:
            link.sendall(head_of("PUT", claim, len(ARCHIVE), "Expect: 100-continue"))
            assert link.recv(100).startswith(b"HTTP/1.1 100")
            running.process.send_signal(signal.SIGTERM)
            assert idle.recv(1) == b""
            link.sendall(ARCHIVE[:HALF])
        assert running.process.wait(PATIENCE_S) == 0
    (part,) = (tmp_path / "landing.uploads").glob("*/*.part")
    assert part.read_bytes() == ARCHIVE[:HALF]


def test_an_upload_that_is_nearly_done_is_finished_before_it_stops(tmp_path: Path) -> None:
    claim = claim_for(ARCHIVE, collector_key=make_state(tmp_path).signing)
    with collector_process(tmp_path) as running, socket.create_connection(running.address) as link:
        link.sendall(head_of("PUT", claim, len(ARCHIVE), "Expect: 100-continue"))
        assert link.recv(100).startswith(b"HTTP/1.1 100")
        running.process.send_signal(signal.SIGTERM)
        link.sendall(ARCHIVE)
        assert link.recv(100).startswith(b"HTTP/1.1 201")
        assert running.process.wait(PATIENCE_S) == 0


def test_the_service_manager_is_notified_of_start_progress_and_stop(tmp_path: Path) -> None:
    make_state(tmp_path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE_S)
        reported = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "100000"}
        with collector_process(tmp_path, environment={**os.environ, **reported}) as running:
            assert manager.recv(100) == b"READY=1"
            assert [manager.recv(100) for _ in range(3)] == [b"WATCHDOG=1"] * 3
            assert running.stop() == 0
            while (word := manager.recv(100)) == b"WATCHDOG=1":
                pass
            assert word == b"STOPPING=1"


def test_an_upload_of_any_size_takes_little_memory(tmp_path: Path) -> None:
    piece, pieces = bytes(1_000_000), 150
    digest = hashlib.sha256()
    for _ in range(pieces):
        digest.update(piece)
    claim = claim_of(digest.digest(), pieces * len(piece), collector_key=make_state(tmp_path).signing)
    with collector_process(tmp_path) as running, socket.create_connection(running.address) as link:
        link.sendall(head_of("PUT", claim, claim.size_bytes))
        for _ in range(pieces):
            link.sendall(piece)
        assert link.recv(100).startswith(b"HTTP/1.1 422")  # all of it was read, hashed and found to be no archive
        status = Path(f"/proc/{running.process.pid}/status").read_text()
        peak_kilobytes = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
        assert peak_kilobytes < 100_000


@pytest.mark.needs("curl", "curl")
def test_curl_can_bring_an_archive_and_go_on_with_an_upload(tmp_path: Path) -> None:
    claim = claim_for(ARCHIVE, collector_key=make_state(tmp_path).signing)
    (tmp_path / "first").write_bytes(ARCHIVE[:HALF])
    (tmp_path / "rest").write_bytes(ARCHIVE[HALF:])
    with collector_process(tmp_path) as running:
        curl = ["curl", "--silent", "--show-error", "--fail", "--write-out", "%{http_code}", "--output", "answer"]
        request = [*curl, "--header", f"Authorization: {claim.to_header()}", running.url + archive_path(claim.archive)]
        asking = ["--header", "Expect: 100-continue"]
        for options, status in (
            (["--head"], "200"),
            (["--upload-file", "first", *asking], "202"),
            (["--request", "PATCH", "--upload-file", "rest", "--header", f"Upload-Offset: {HALF}", *asking], "201"),
            (["--upload-file", "first"], "200"),
        ):
            done = subprocess.run([*request, *options], cwd=tmp_path, capture_output=True, text=True, check=True)
            assert done.stdout == status
    receipt = Receipt.from_bytes((tmp_path / "answer").read_bytes())
    assert receipt.archive == claim.archive


def test_it_does_not_start_without_keys(tmp_path: Path) -> None:
    assert "keys init" in refusal_to_start(tmp_path)


def test_it_does_not_start_with_keys_that_others_can_read(tmp_path: Path) -> None:
    make_state(tmp_path)
    (tmp_path / "state" / "keys" / "signing.key").chmod(0o644)
    assert "others can read" in refusal_to_start(tmp_path)


def test_it_starts_without_the_encryption_key_which_may_live_elsewhere(tmp_path: Path) -> None:
    make_state(tmp_path)
    (tmp_path / "state" / "keys" / "decryption.key").unlink()
    with collector_process(tmp_path) as running:
        assert running.stop() == 0


def test_a_second_one_with_the_same_state_does_not_start(tmp_path: Path) -> None:
    make_state(tmp_path)
    with collector_process(tmp_path):
        assert "another collector" in refusal_to_start(tmp_path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--listen", "nowhere"], "HOST:PORT"),
        (["--listen", "127.0.0.1:99999"], "HOST:PORT"),
        (["--max-archive-bytes", "0"], "not above 0"),
        (["--max-connections", "1000000"], "open files"),
        (["--key-file", "key.pem"], "must be given together"),
        (["--key-file", "no-key.pem", "--cert-file", "no-certificate.pem"], "cannot be used for TLS"),
    ],
)
def test_it_does_not_start_with_settings_that_make_no_sense(tmp_path: Path, options: list[str], words: str) -> None:
    make_state(tmp_path)
    assert words in refusal_to_start(tmp_path, *options)


def subject_of(address: tuple[str, int]) -> str:
    certificate = x509.load_pem_x509_certificate(ssl.get_server_certificate(address).encode())
    return certificate.subject.rfc4514_string()


def test_a_tls_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    make_state(tmp_path)
    certificate, key = make_certificate(tmp_path, "localhost")
    key.chmod(0o644)
    problem = refusal_to_start(tmp_path, "--cert-file", str(certificate), "--key-file", str(key))
    assert f"{key}: others can read or change it (mode 0644)" in problem
    assert "chmod 600" in problem


def test_archives_travel_over_tls_and_a_renewed_certificate_counts_after_sighup(tmp_path: Path) -> None:
    claim = claim_for(ARCHIVE, collector_key=make_state(tmp_path).signing)
    certificate, key = make_certificate(tmp_path, "localhost")
    files = ("--cert-file", str(certificate), "--key-file", str(key))
    with collector_process(tmp_path, *files) as running:
        assert running.url.startswith("https://")
        context = ssl.create_default_context(cafile=certificate)
        context.check_hostname = False
        client = http.client.HTTPSConnection(*running.address, timeout=PATIENCE_S, context=context)
        client.request("PUT", archive_path(claim.archive), ARCHIVE, {"Authorization": claim.to_header()})
        assert read_reply(client.getresponse()).status == 201
        client.close()
        with socket.create_connection(running.address) as plain:
            plain.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
            assert not plain.recv(100).startswith(b"HTTP")
        make_certificate(tmp_path, "renewed")
        running.process.send_signal(signal.SIGHUP)
        while subject_of(running.address) != "CN=renewed":
            pass
        assert running.stop() == 0


def test_a_certificate_that_is_refused_at_a_reload_is_shown_by_the_manager(tmp_path: Path) -> None:
    make_state(tmp_path)
    certificate, key = make_certificate(tmp_path, "localhost")
    good = certificate.read_bytes()
    files = ("--cert-file", str(certificate), "--key-file", str(key))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE_S)
        environment = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")}
        with collector_process(tmp_path, *files, environment=environment) as running:
            assert manager.recv(100) == b"READY=1"
            certificate.write_text("no certificate")
            running.process.send_signal(signal.SIGHUP)
            assert manager.recv(1000).startswith(b"STATUS=the new certificate was refused")
            assert subject_of(running.address) == "CN=localhost"
            certificate.write_bytes(good)
            running.process.send_signal(signal.SIGHUP)
            assert manager.recv(1000) == b"STATUS="
            assert running.stop() == 0


def test_a_port_that_is_taken_is_reported_in_one_line(tmp_path: Path) -> None:
    make_state(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        command = run_command(tmp_path, "--listen", address)
        done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (74, "", 1)
    assert "address already in use" in done.stderr


def test_it_does_not_run_on_without_a_reachable_address(tmp_path: Path) -> None:
    make_state(tmp_path)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            run_command(tmp_path), cwd=PROJECT, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (74, "headgate: No space left on device\n")
