"""What a well-behaved device meets: upload, resume, ask, and the receipt."""

import hashlib
import http.client
import os
import random
import stat
import time
from pathlib import Path

from ingest.collector.device_limits import BURST_S
from ingest.collector.settings import Limits
from protocol.shipping import archive_path
from tests.support.archives import BINDING, record, write_archive
from tests.support.collectors import (
    ARCHIVE,
    COLLECTOR_KEY,
    DECRYPTION_KEY,
    RunningCollector,
    claim_for,
    encrypt,
    head_of,
    read_reply,
    running_collector,
)
from tests.support.patience import PATIENCE_S

NAME = hashlib.sha256(ARCHIVE).hexdigest() + ".hga"
CLAIM = claim_for(ARCHIVE)
HALF = len(ARCHIVE) // 2


def test_an_archive_is_stored_under_its_digest_and_answered_with_a_receipt(collector: RunningCollector) -> None:
    reply = collector.put(ARCHIVE)
    assert reply.status == 201
    assert reply.receipt.covers(
        archive=CLAIM.archive, size_bytes=len(ARCHIVE), device=BINDING.address, collector_key=COLLECTOR_KEY
    )
    assert collector.landed() == {NAME: ARCHIVE}
    assert collector.parts() == {}


def test_the_same_archive_again_gets_the_same_receipt(collector: RunningCollector) -> None:
    first = collector.put(ARCHIVE)
    again = collector.put(ARCHIVE)
    assert (again.status, again.body) == (200, first.body)
    assert collector.get_receipt(CLAIM).body == first.body
    assert len(collector.receipts()) == 1


def test_a_client_that_sends_all_before_it_listens_hears_that_the_archive_is_known(collector: RunningCollector) -> None:
    large = write_archive([record(number, text=random.Random(number).randbytes(1_000_000)) for number in range(8)])
    first, again = collector.put(large), collector.put(large)
    assert (first.status, again.status, again.body) == (201, 200, first.body)


def test_a_client_that_asks_first_need_not_send_what_is_known(collector: RunningCollector) -> None:
    receipt = collector.put(ARCHIVE).body
    with collector.connect() as link:
        link.sendall(head_of("PUT", CLAIM, len(ARCHIVE), "Expect: 100-continue"))
        answer = link.recv(4096)
        assert answer.startswith(b"HTTP/1.1 200")
        assert answer.endswith(receipt)


def test_the_receipt_outlives_a_restart_and_the_archive_in_the_landing_area(tmp_path: Path) -> None:
    with running_collector(tmp_path) as collector:
        first = collector.put(ARCHIVE)
        (collector.folders.landing / NAME).unlink()  # as a clean-up after the ingest does
    with running_collector(tmp_path) as collector:
        assert collector.put(ARCHIVE).body == first.body
        assert collector.landed() == {}


def test_an_upload_goes_on_where_it_stopped(collector: RunningCollector) -> None:
    assert collector.head(CLAIM).offset == 0
    part = collector.ask(
        "PUT", archive_path(CLAIM.archive), ARCHIVE[:HALF], Authorization=CLAIM.to_header()
    )  # a request may bring a part
    assert (part.status, part.offset, part.headers["upload-complete"]) == (202, HALF, "?0")
    assert collector.head(CLAIM).offset == HALF
    assert collector.get_receipt(CLAIM).code == "not-stored"
    assert collector.patch(ARCHIVE[HALF:], HALF, CLAIM).status == 201
    reply = collector.head(CLAIM)
    assert (reply.offset, reply.headers["upload-complete"]) == (len(ARCHIVE), "?1")
    assert collector.landed() == {NAME: ARCHIVE}


def test_what_came_in_before_the_link_broke_is_kept(tmp_path: Path) -> None:
    with running_collector(tmp_path) as collector:
        with collector.connect() as link:
            link.sendall(head_of("PUT", CLAIM, len(ARCHIVE)) + ARCHIVE[:HALF])
            link.shutdown(1)
            assert link.recv(1) == b""  # the collector has seen the end
        assert collector.head(CLAIM).offset == HALF
    with running_collector(tmp_path) as collector:  # and outlives a restart
        assert collector.patch(ARCHIVE[HALF:], HALF, CLAIM).status == 201


def test_an_upload_whose_last_answer_was_lost_is_completed_by_an_empty_request(collector: RunningCollector) -> None:
    path = collector.intake.uploads.path(CLAIM)
    path.parent.mkdir()
    path.write_bytes(ARCHIVE)  # killed after the last byte, before the check
    assert collector.head(CLAIM).offset == len(ARCHIVE)
    assert collector.patch(b"", len(ARCHIVE), CLAIM).status == 201


def test_a_put_begins_anew_whatever_is_there(collector: RunningCollector) -> None:
    assert collector.patch(b"rubbish", 0, CLAIM).status == 202
    assert collector.put(ARCHIVE).status == 201
    assert collector.landed() == {NAME: ARCHIVE}


def test_an_archive_that_was_stored_before_a_crash_gets_its_receipt_after_it(collector: RunningCollector) -> None:
    (collector.folders.landing / NAME).write_bytes(ARCHIVE)  # renamed, and killed before the receipt
    assert collector.head(CLAIM).headers["upload-complete"] == "?1"
    assert collector.get_receipt(CLAIM).receipt.archive == CLAIM.archive


def test_a_damaged_file_in_the_landing_area_is_replaced_and_not_vouched_for(collector: RunningCollector) -> None:
    (collector.folders.landing / NAME).write_bytes(ARCHIVE[:-1] + b"?")
    assert collector.head(CLAIM).headers["upload-complete"] == "?0"
    assert collector.put(ARCHIVE).status == 201
    assert collector.landed() == {NAME: ARCHIVE}


def test_a_newer_request_pushes_out_the_one_that_hangs(collector: RunningCollector) -> None:
    with collector.connect() as dead_link:
        dead_link.sendall(head_of("PUT", CLAIM, len(ARCHIVE), "Expect: 100-continue"))
        assert dead_link.recv(100).startswith(b"HTTP/1.1 100")  # it waits for bytes that never come
        assert collector.put(ARCHIVE).status == 201
        assert b"409" in dead_link.recv(100)
    assert collector.landed() == {NAME: ARCHIVE}


def test_a_client_that_expects_it_gets_100_continue(collector: RunningCollector) -> None:
    with collector.connect() as link:
        link.sendall(head_of("PUT", CLAIM, len(ARCHIVE), "Expect: 100-continue"))
        assert link.recv(100).startswith(b"HTTP/1.1 100")
        link.sendall(ARCHIVE)
        assert link.recv(100).startswith(b"HTTP/1.1 201")


def test_one_connection_serves_many_requests(collector: RunningCollector) -> None:
    client = http.client.HTTPConnection(collector.host, collector.port, timeout=PATIENCE_S)
    authorization = {"Authorization": CLAIM.to_header()}
    for method, body, status in (("HEAD", None, 200), ("PUT", ARCHIVE, 201), ("HEAD", None, 200)):
        client.request(method, archive_path(CLAIM.archive), body, authorization)
        assert read_reply(client.getresponse()).status == status
    client.close()
    assert collector.metric("connections_accepted_total") == 2  # this one, and the one that asks for it


def test_the_file_has_the_time_of_its_arrival_and_can_be_read_by_the_group(collector: RunningCollector) -> None:
    collector.patch(ARCHIVE[:HALF], 0, CLAIM)
    long_ago_s = time.time() - 30 * 24 * 3600
    os.utime(collector.intake.uploads.path(CLAIM), (long_ago_s, long_ago_s))
    before_s = time.time() - 0.001
    receipt = collector.patch(ARCHIVE[HALF:], HALF, CLAIM).receipt
    status = (collector.folders.landing / NAME).stat()
    assert before_s <= status.st_mtime <= time.time()
    assert round(status.st_mtime * 1000) == receipt.received_at_ms
    assert stat.S_IMODE(status.st_mode) == 0o640


def test_a_encrypted_archive_is_stored_closed(collector: RunningCollector) -> None:
    encrypted = encrypt(ARCHIVE, DECRYPTION_KEY.public_key)
    reply = collector.put(encrypted)
    assert (reply.status, reply.receipt.archive) == (201, hashlib.sha256(encrypted).digest())
    assert list(collector.landed().values()) == [encrypted]


def test_a_device_that_requests_too_often_must_wait(tmp_path: Path) -> None:
    with running_collector(tmp_path, Limits(min_free_bytes=0, device_requests_per_s=1)) as collector:
        assert collector.put(ARCHIVE).status == 201
        replies = [collector.get_receipt(CLAIM) for _ in range(4)]
        refused = next(reply for reply in replies if reply.status == 429)
        assert refused.code == "too-many-requests"
        assert int(refused.headers["retry-after"]) >= 1


def test_a_device_is_slowed_down_to_its_rate(tmp_path: Path) -> None:
    rate = int(len(ARCHIVE) / (BURST_S + 0.25))
    with running_collector(tmp_path, Limits(min_free_bytes=0, device_bytes_per_s=rate)) as collector:
        started_s = time.monotonic()
        assert collector.put(ARCHIVE).status == 201
        assert time.monotonic() - started_s >= 0.25  # a slow machine only makes it longer


def test_metrics_and_health_tell_what_happened(collector: RunningCollector) -> None:
    collector.put(ARCHIVE)
    collector.put(ARCHIVE)
    collector.put(b"not an archive")
    text = collector.ask("GET", "/metrics").body.decode()
    for line in (
        "archives_stored_total 1",
        f"bytes_stored_total {len(ARCHIVE)}",
        "receipts_repeated_total 1",
        'refusals_total{code="archive-invalid"} 1',
        'responses_total{status="201"} 1',
        "uploads_active 0",
    ):
        assert f"headgate_collector_{line}\n" in text
    assert collector.ask("GET", "/healthz").body == b"ok\n"


def test_health_says_so_when_the_disk_is_nearly_full(tmp_path: Path) -> None:
    with running_collector(tmp_path, Limits(min_free_bytes=2**60)) as collector:
        assert collector.ask("GET", "/healthz").code == "no-space"
        assert collector.put(ARCHIVE).code == "no-space"
        assert collector.parts() == {}
