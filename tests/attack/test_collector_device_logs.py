"""Enrolled and unknown devices against the device logs of a collector: none changes the log of another device."""

import dataclasses
from pathlib import Path

import pytest
from nacl.signing import SigningKey

from ingest.collector.devices import Device
from ingest.collector.leaves import LEAF_BYTES, NUMBERS_PER_FILE
from ingest.collector.log_state import MAX_RANGES, MAX_STATE_BYTES
from ingest.collector.settings import Limits
from protocol.binding import Binding, sign_binding
from protocol.devicelog.answer import LogStatus
from protocol.devicelog.checkpoint import Checkpoint, CheckpointStatement, sign_checkpoint
from protocol.devicelog.entry import LaneRange, LogEntry
from protocol.devicelog.frontier import MAX_LOG_SIZE
from protocol.devicelog.log import LogHead
from protocol.errors import WireError
from protocol.ethereum import Signer
from protocol.shipping import checkpoint_name
from protocol.strict_cbor import CborBounds, decode, encode
from tests.effort import effort
from tests.support.archives import BINDING, EMPTY_LOG, LOG
from tests.support.collectors import DECRYPTION_KEY, RunningCollector, encrypt, running_collector
from tests.support.logging_device import LoggingDevice, claim_with

ATTACKER = Signer(b"\x77" * 32)
ATTACKER_KEY = SigningKey(b"\x66" * 32)
ATTACKER_BINDING = sign_binding(ATTACKER, bytes(ATTACKER_KEY.verify_key))
BOUNDS = CborBounds(max_bytes=4096, max_items=512, max_depth=4)
OTHER = b"x" * 32


def enrol_attacker(collector: RunningCollector) -> None:
    device = Device(address=ATTACKER_BINDING.address, archive_key=ATTACKER_BINDING.archive_key, enrolled_at_ms=1)
    collector.intake.allow_list.enrol(device)


def attackers(checkpoint: Checkpoint, *, binding: Binding = ATTACKER_BINDING) -> Checkpoint:
    """The same statement, signed by the attacker's keys."""
    names = [each.name for each in dataclasses.fields(CheckpointStatement)]
    stated = {**{name: getattr(checkpoint, name) for name in names}, "binding": binding}
    return sign_checkpoint(CheckpointStatement(**stated), lambda message: ATTACKER_KEY.sign(message).signature)


def forged(checkpoint: Checkpoint, **changes: object) -> bytes:
    """With changed fields under the old signature."""
    body = decode(checkpoint.to_bytes(), BOUNDS)
    assert isinstance(body, dict)
    return encode({**body, **changes})  # type: ignore[dict-item]


@pytest.mark.parametrize("changes", [{"size": 0, "last": b""}, {"waiting": 0}, {"device": ATTACKER_BINDING.address}])
def test_a_forged_checkpoint_of_another_device_is_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    device = LoggingDevice()
    device.archive()
    genuine = device.checkpoint(waiting=1)
    with running_collector(tmp_path) as collector:
        enrol_attacker(collector)
        assert collector.put_checkpoint(forged(genuine, **changes), LOG).code == "checkpoint-invalid"
        assert not list(collector.folders.landing.iterdir())


def test_a_binding_of_another_device_does_not_fit_the_attackers_key() -> None:
    with pytest.raises((WireError, ValueError)):
        attackers(LoggingDevice().checkpoint(), binding=BINDING)


def test_the_log_id_of_another_device_is_a_log_of_its_own(tmp_path: Path) -> None:
    device = LoggingDevice()
    device.archives_made(3)
    with running_collector(tmp_path) as collector:
        enrol_attacker(collector)
        for data in device.archives:
            collector.put(data)
        answer = collector.beat(device.checkpoint())
        hostile = attackers(device.checkpoint(root=OTHER))
        assert collector.beat(hostile).held_size == 0
        again = collector.beat(device.checkpoint(not_archived=6))
        assert (again.status, again.held_size, again.held_root) == (LogStatus.OK, 3, answer.held_root)
        names = {path.name for path in collector.folders.landing.glob("*.checkpoint")}
        assert names == {checkpoint_name(each.address, LOG) for each in (BINDING, ATTACKER_BINDING)}
        own = collector.folders.landing / checkpoint_name(BINDING.address, LOG)
        assert Checkpoint.from_bytes(own.read_bytes()).binding == BINDING


def test_a_replayed_checkpoint_changes_nothing_but_the_contact(tmp_path: Path) -> None:
    device = LoggingDevice()
    old = device.checkpoint()
    device.archives_made(2)
    new = device.checkpoint()
    with running_collector(tmp_path) as collector:
        for data in device.archives:
            collector.put(data)
        collector.beat(new)
        for _ in range(3):
            collector.beat(old)
        path = collector.folders.landing / checkpoint_name(BINDING.address, LOG)
        assert path.read_bytes() == new.to_bytes()
        assert collector.beat(device.checkpoint(not_archived=6)).status is LogStatus.OK
        assert collector.metric("logs_forked") == 0


def test_logs_without_number_are_refused_at_a_bounded_cost(tmp_path: Path) -> None:
    limits = Limits(min_free_bytes=0, max_logs_per_device=20, device_requests_per_s=10_000)
    with running_collector(tmp_path, limits) as collector:
        for number in range(effort(test=100, soak=5000)):
            head = LogHead(log=b"log %012d" % number)
            reply = collector.put_checkpoint(LoggingDevice(head=head).checkpoint().to_bytes(), head.log)
            assert (reply.status == 200) == (number < 20)
        assert len(list(collector.folders.logs.glob("*/*"))) == 20
        assert len(list(collector.folders.landing.iterdir())) == 20


def test_numbers_far_apart_with_many_lanes_use_bounded_space(tmp_path: Path) -> None:
    with running_collector(tmp_path, Limits(min_free_bytes=0, device_requests_per_s=10_000)) as collector:
        codes = set()
        for index in range(2 * MAX_RANGES):
            data = encrypt(b"archive %d" % index, DECRYPTION_KEY.public_key)
            reply = collector.put(data, claim_with(data, far_entry(MAX_LOG_SIZE - 1 - index * 20_000, index)))
            codes.add(reply.status)
        assert codes == {201, 503}
        used = sum(path.stat().st_blocks * 512 for path in collector.folders.logs.rglob("*") if path.is_file())
        assert used < MAX_RANGES * 8192 + MAX_STATE_BYTES
        apparent = max(path.stat().st_size for path in collector.folders.logs.glob("*/*/leaves-*"))
        assert apparent <= NUMBERS_PER_FILE * LEAF_BYTES
        answer = collector.beat(LoggingDevice().checkpoint())
        assert len(answer.missing) == MAX_RANGES


def far_entry(number: int, lane: int) -> LogEntry:
    positions = tuple(LaneRange((lane * 31 + each) % 256, 0, 2**62, 2**63 - 1) for each in range(8))
    lanes = tuple(sorted(positions))
    return dataclasses.replace(EMPTY_LOG.entry({}), number=number, previous=OTHER, root=OTHER, lanes=lanes)
