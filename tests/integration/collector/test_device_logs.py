"""Devices whose archives are withheld, out of order, replaced or forked, and what the collector holds against them."""

import hashlib
import os
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from ingest.collector.log_state import MAX_RANGES
from ingest.collector.logs import read_state
from ingest.collector.settings import Limits
from protocol.devicelog.answer import LogStatus
from protocol.devicelog.frontier import MAX_LOG_SIZE, Frontier
from protocol.devicelog.log import LogHead
from protocol.shipping import UploadClaim, checkpoint_name
from tests.support.archives import BINDING, EMPTY_LOG, LOG, entry_of
from tests.support.collectors import COLLECTOR_KEY, DECRYPTION_KEY, RunningCollector, encrypt, running_collector
from tests.support.logging_device import LoggingDevice, claim_with

OTHER = b"x" * 32


def digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def evidence(collector: RunningCollector) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in collector.folders.forks.glob("*/*/*")}


def stored_checkpoint(collector: RunningCollector, log: bytes = LOG) -> Path:
    return collector.folders.landing / checkpoint_name(BINDING.address, log)


def test_each_receipt_states_the_log_as_far_as_it_is_held(collector: RunningCollector) -> None:
    device = LoggingDevice()
    for number, data in enumerate(device.archives_made(3)):
        receipt = collector.put(data).receipt
        held = Frontier().extend(map(digest, device.archives[: number + 1]))
        assert (receipt.log, receipt.number) == (LOG, number)
        assert (receipt.held_size, receipt.held_root) == (held.size, held.root)


def test_archives_out_of_order_are_held_and_the_missing_ones_named(collector: RunningCollector) -> None:
    device = LoggingDevice()
    archives = device.archives_made(6)
    for number in (5, 0, 3, 1):
        assert collector.put(archives[number]).status == 201
    answer = collector.beat(device.checkpoint(waiting=2))
    assert (answer.status, answer.held_size, answer.missing) == (LogStatus.OK, 2, ((2, 3), (4, 5)))
    assert collector.metric("logs_with_missing_archives") == 1
    for number in (4, 2):
        receipt = collector.put(archives[number]).receipt
    assert (receipt.held_size, receipt.held_root) == (6, device.head.frontier.root)
    assert collector.beat(device.checkpoint()).missing == ()
    assert collector.metric("logs_with_missing_archives") == 0


def test_a_heartbeat_is_answered_with_time_and_what_is_held(collector: RunningCollector) -> None:
    device = LoggingDevice()
    checkpoint = device.checkpoint()
    before_ms = time.time_ns() // 1_000_000
    answer = collector.beat(checkpoint)
    assert before_ms <= answer.now_ms <= time.time_ns() // 1_000_000
    sent = digest(checkpoint.to_bytes())
    assert answer.answers(checkpoint=sent, log=LOG, collector_key=COLLECTOR_KEY)
    assert (answer.status, answer.held_size, answer.missing) == (LogStatus.OK, 0, ())
    collector.put(device.archive())
    answer = collector.beat(device.checkpoint())
    assert (answer.status, answer.held_size, answer.held_root) == (LogStatus.OK, 1, device.head.frontier.root)
    assert collector.metric("heartbeats_total") == 2


def test_the_newest_checkpoint_lands_for_the_ingest_whatever_the_order_of_arrival(collector: RunningCollector) -> None:
    device = LoggingDevice()
    device.archives_made(2)
    old, new = device.checkpoint(not_archived=1), device.checkpoint(not_archived=9)
    before_s = time.time() - 0.01
    collector.beat(old)
    collector.beat(new)
    path = stored_checkpoint(collector)
    assert path.read_bytes() == new.to_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert before_s <= path.stat().st_mtime <= time.time()
    os.utime(path, (1, 1))
    for again in (old, new):  # replayed, or late
        assert collector.beat(again).status is (LogStatus.BEHIND if again is old else LogStatus.OK)
        assert (path.read_bytes(), path.stat().st_mtime) == (new.to_bytes(), 1)
    path.unlink()  # as an operator may
    collector.beat(old)
    assert path.read_bytes() == new.to_bytes()


def test_a_device_that_runs_from_an_old_copy_of_its_disk_is_notified(collector: RunningCollector) -> None:
    device = LoggingDevice()
    device.archives_made(2)
    old = device.copy(b"old")
    device.archive()
    for data in device.archives:
        collector.put(data)
    answer = collector.beat(old.checkpoint())
    assert (answer.status, answer.held_size, answer.held_root) == (LogStatus.BEHIND, 3, device.head.frontier.root)
    assert collector.beat(device.checkpoint()).status is LogStatus.OK


def test_a_device_is_behind_by_readings_that_it_had_committed_and_not_by_receipts_that_it_forgot(
    collector: RunningCollector,
) -> None:
    device = LoggingDevice()
    collector.put(device.archive())
    newest = device.checkpoint(not_archived=5)
    collector.beat(newest)
    fewer = tuple(each._replace(released=each.begin) for each in newest.lanes)
    assert collector.beat(device.checkpoint(not_archived=5, lanes=fewer)).status is LogStatus.OK
    assert collector.beat(device.checkpoint(not_archived=4)).status is LogStatus.BEHIND


def test_a_second_archive_with_a_used_number_is_refused_and_stored_as_evidence(collector: RunningCollector) -> None:
    device = LoggingDevice()
    device.archives_made(2)
    clone = device.copy(b"clone")
    first, second = device.archive(), clone.archive()
    for data in device.archives:
        assert collector.put(data).status == 201
    reply = collector.put(second)
    assert (reply.status, reply.code) == (409, "log-forked")
    assert digest(first).hex() in reply.body.decode()
    assert f"{digest(second).hex()}.hga" not in collector.landed()
    assert evidence(collector)[f"{digest(second).hex()}.hga"] == second
    claim = UploadClaim.from_bytes(evidence(collector)[f"{digest(second).hex()}.claim"])
    assert (claim.archive, claim.entry.number) == (digest(second), 2)
    assert len(collector.receipts()) == 3
    assert collector.parts() == {}
    for each in (device, clone):
        assert collector.beat(each.checkpoint()).status is LogStatus.FORKED
    assert collector.metric("logs_forked") == 1
    assert collector.put(device.archive()).status == 201  # the log that was held first goes on


def test_an_archive_that_follows_another_branch_is_refused(collector: RunningCollector) -> None:
    device = LoggingDevice()
    device.archive()
    clone = device.copy(b"clone")
    device.archives_made(2)
    clone.archives_made(2)
    for data in device.archives[:2]:
        collector.put(data)
    reply = collector.put(clone.archives[2])  # number 2 is free, but it follows another number 1
    assert reply.code == "log-forked"
    assert collector.put(device.archives[2]).status == 201


def test_a_fork_is_noticed_when_the_hole_between_is_filled(collector: RunningCollector) -> None:
    device = LoggingDevice()
    device.archive()
    clone = device.copy(b"clone")
    device.archives_made(2)
    clone.archives_made(2)
    collector.put(device.archives[0])
    assert collector.put(clone.archives[2]).status == 201  # nothing contradicts it yet
    assert collector.put(device.archives[1]).code == "log-forked"
    assert collector.put(clone.archives[1]).status == 201


def test_a_forked_archive_that_is_sent_again_is_refused_before_it_is_read(collector: RunningCollector) -> None:
    device, clone = LoggingDevice(), LoggingDevice(flavour=b"clone")
    collector.put(device.archive())
    second = clone.archive()
    assert collector.put(second).code == "log-forked"
    received = collector.metric("bytes_received_total")
    assert collector.put(second).code == "log-forked"
    assert collector.metric("bytes_received_total") == received


def test_evidence_is_limited_and_forks_are_still_refused(tmp_path: Path) -> None:
    device = LoggingDevice()
    size = len(device.archive())
    limits = Limits(min_free_bytes=0, max_fork_bytes_per_device=3 * size)
    with running_collector(tmp_path, limits) as collector:
        collector.put(device.archives[0])
        for number in range(5):
            assert collector.put(LoggingDevice(flavour=b"%d" % number).archive()).code == "log-forked"
        assert 0 < sum(map(len, evidence(collector).values())) <= 3 * size
        (state,) = collector.folders.logs.glob("*/*/state")
        assert read_state(state).forks_found == 5


def test_checkpoints_that_contradict_each_other_are_both_kept(collector: RunningCollector) -> None:
    device = LoggingDevice()
    device.archive()
    first, second = device.checkpoint(), device.checkpoint(root=OTHER)
    assert collector.beat(first).status is LogStatus.OK
    assert collector.beat(second).status is LogStatus.FORKED
    kept = {f"{digest(each.to_bytes()).hex()}.checkpoint": each.to_bytes() for each in (first, second)}
    assert evidence(collector) == kept
    assert stored_checkpoint(collector).read_bytes() == first.to_bytes()


def test_a_checkpoint_that_contradicts_the_archives_marks_the_log(collector: RunningCollector) -> None:
    device = LoggingDevice()
    device.archive()
    clone = device.copy(b"clone")
    device.archives_made(2)
    clone.archive()
    for data in device.archives:
        collector.put(data)
    assert collector.beat(clone.checkpoint()).status is LogStatus.FORKED  # a smaller log, with another root
    assert not stored_checkpoint(collector).exists()


def test_a_damaged_archive_is_replaced_and_the_log_has_no_hole(collector: RunningCollector) -> None:
    device = LoggingDevice()
    device.archives_made(3)
    device.replacement(1)
    device.archive()
    for number in (0, 2, 4):
        collector.put(device.archives[number])
    receipt = collector.put(device.archives[3]).receipt
    assert (receipt.held_size, receipt.held_root) == (5, device.head.frontier.root)
    assert collector.beat(device.checkpoint()).missing == ()


def test_the_claim_to_an_open_archive_states_its_true_place(collector: RunningCollector) -> None:
    device = LoggingDevice()
    data = device.archives_made(2)[1]
    reply = collector.put(data, claim_with(data, entry_of(device.archives[0])))
    assert reply.code == "archive-invalid"
    assert collector.put(data).status == 201


def test_the_place_of_an_encrypted_archive_is_that_of_its_claim(collector: RunningCollector) -> None:
    device = LoggingDevice()
    encrypted = [encrypt(data, DECRYPTION_KEY.public_key) for data in device.archives_made(2)]
    head = LogHead(log=LOG)
    for data in encrypted:
        entry = head.entry({})
        assert collector.put(data, claim_with(data, entry)).status == 201
        head = head.append(entry, digest(data))
    assert collector.beat(device.checkpoint(root=head.frontier.root, last=head.last)).held_size == 2


def test_many_holes_are_refused_until_some_are_filled(collector: RunningCollector) -> None:
    device = LoggingDevice()
    archives = device.archives_made(2 * MAX_RANGES + 2)
    intake = collector.intake
    for number in range(0, 2 * MAX_RANGES, 2):
        with intake.logs.hold(BINDING.address, LOG, previous_log=b"", now_ms=1) as log:
            log.prepare(entry_of(archives[number]))
            log.append(entry_of(archives[number]), digest(archives[number]), 1)
    reply = collector.put(archives[2 * MAX_RANGES])
    assert (reply.status, reply.code, reply.headers["retry-after"]) == (503, "busy", "60")
    assert collector.put(archives[1]).status == 201
    assert collector.put(archives[2 * MAX_RANGES]).status == 201


def test_the_highest_number_is_accepted_and_costs_no_more_than_any_other(collector: RunningCollector) -> None:
    data = encrypt(b"anything", DECRYPTION_KEY.public_key)
    entry = replace(EMPTY_LOG.entry({}), number=MAX_LOG_SIZE - 1, previous=OTHER, root=OTHER)
    assert collector.put(data, claim_with(data, entry)).status == 201
    answer = collector.beat(LoggingDevice().checkpoint(size=MAX_LOG_SIZE, root=OTHER, last=digest(data)))
    assert answer.missing == ((0, MAX_LOG_SIZE - 1),)
    assert sum(path.stat().st_blocks * 512 for path in collector.folders.logs.rglob("*")) < 1_000_000


def test_a_device_cannot_begin_any_number_of_logs(tmp_path: Path) -> None:
    with running_collector(tmp_path, Limits(min_free_bytes=0, max_logs_per_device=3)) as collector:
        logs = [LoggingDevice(head=LogHead(log=b"log %012d" % number)) for number in range(5)]
        assert [collector.put(each.archive()).status for each in logs] == [201, 201, 201, 403, 403]
        reply = collector.put_checkpoint(logs[4].checkpoint().to_bytes(), logs[4].head.log)
        assert reply.code == "too-many-logs"
        assert collector.put(logs[0].archive()).status == 201
        assert len(list(collector.folders.logs.glob("*/*"))) == 3
        assert len(collector.landed()) == 4


def test_concurrent_uploads_of_one_log_are_all_held(tmp_path: Path) -> None:
    device = LoggingDevice()
    archives = device.archives_made(24)
    limits = Limits(min_free_bytes=0, device_requests_per_s=1000, max_uploads_per_device=24)
    with running_collector(tmp_path, limits) as collector, ThreadPoolExecutor(8) as threads:
        beats = [threads.submit(collector.beat, device.checkpoint()) for _ in range(4)]
        assert {reply.status for reply in threads.map(collector.put, archives)} == {201}
        assert {beat.result().status for beat in beats} == {LogStatus.OK}
        answer = collector.beat(device.checkpoint())
    assert (answer.held_size, answer.held_root) == (24, device.head.frontier.root)


@pytest.mark.parametrize("made", [b"", b"\xa0", b"x" * 4096, LoggingDevice().checkpoint().to_bytes()[:-1]])
def test_what_is_no_checkpoint_is_refused(collector: RunningCollector, made: bytes) -> None:
    assert collector.put_checkpoint(made, LOG).code == "checkpoint-invalid"
    assert list(collector.folders.logs.iterdir()) == []


def test_a_checkpoint_is_bounded_before_it_is_read(collector: RunningCollector) -> None:
    assert collector.put_checkpoint(b"x" * 4097, LOG).code == "too-large"
    assert collector.put_checkpoint(LoggingDevice().checkpoint().to_bytes(), OTHER[:16]).code == "checkpoint-invalid"
    assert collector.ask("GET", f"/logs/{LOG.hex()}/checkpoint").code == "method-not-allowed"
    assert collector.ask("PUT", f"/logs/{LOG.hex().upper()}/checkpoint", b"").code == "not-found"


def test_a_device_that_is_not_enrolled_or_revoked_has_no_heartbeat(collector: RunningCollector) -> None:
    checkpoint = LoggingDevice().checkpoint()
    collector.intake.allow_list.revoke(BINDING.address, 1)
    assert collector.put_checkpoint(checkpoint.to_bytes(), LOG).code == "device-revoked"
    assert not stored_checkpoint(collector).exists()


def test_heartbeats_count_as_requests_of_the_device(tmp_path: Path) -> None:
    with running_collector(tmp_path, Limits(min_free_bytes=0, device_requests_per_s=1)) as collector:
        data = LoggingDevice().checkpoint().to_bytes()
        assert "too-many-requests" in {
            reply.code for reply in [collector.put_checkpoint(data, LOG) for _ in range(4)] if reply.status != 200
        }


def test_an_archive_with_a_receipt_is_noted_again_if_the_logs_are_an_older_copy(tmp_path: Path) -> None:
    device = LoggingDevice()
    device.archives_made(2)
    with running_collector(tmp_path) as collector:
        receipts = [collector.put(data).body for data in device.archives]
        for path in collector.folders.logs.glob("*/*/*"):
            path.unlink()
        assert collector.beat(device.checkpoint()).held_size == 0
        assert [collector.put(data).body for data in device.archives] == receipts
        assert collector.beat(device.checkpoint()).held_size == 2
