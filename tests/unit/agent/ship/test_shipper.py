import asyncio
import contextlib
import hashlib
import socket
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from nacl.signing import SigningKey

from agent.archive.settings import ArchiveConfig, ShipConfig
from agent.archive.stage import Archiving
from agent.archive.state import KeptArchive
from agent.clock import SystemClock
from agent.errors import LinkDown
from agent.journal import DirectoryDisk, Entry, Journal, JournalSettings
from agent.journal.thread import JournalThread
from agent.keys import DeviceKeys
from agent.ship.log_check import REASONS
from agent.ship.shipper import Shipper, is_whole
from protocol.devicelog.answer import LogStatus, NumberRange
from protocol.devicelog.checkpoint import Checkpoint, Relation
from protocol.devicelog.entry import Replaced
from protocol.devicelog.merkle import EMPTY_ROOT
from protocol.shipping import UPLOAD_OFFSET, Refusal, checkpoint_name
from tests.support.device_logs import make_receipt
from tests.support.patience import PATIENCE_S
from tests.support.small_collector import KEY, SmallCollector
from tests.support.within import within

RECORDS = 700
STRANGER = bytes(SigningKey(b"x" * 32).verify_key)


@pytest.fixture
def collector() -> Iterator[SmallCollector]:
    with SmallCollector() as running:
        yield running


class Device:
    """A journal with something in it, its archives and what ships them."""

    def __init__(self, folder: Path, config: ShipConfig) -> None:
        clock = SystemClock()
        self.folder = folder
        journal = Journal(
            DirectoryDisk(folder / "journal"), JournalSettings(cursors=("archive",)), new_journal_id=1, now_ms=0
        )
        self.journal = JournalThread(journal, clock)
        entries = [
            Entry(hashlib.sha512(b"%d" % at).hexdigest().encode(), "chain", 1000 + at, 0) for at in range(RECORDS)
        ]
        journal.append_many(3, entries)
        journal.commit(0)
        numbers = iter(range(1, 4))
        self.keys = DeviceKeys.generate(lambda count: bytes([next(numbers)]) * count)
        self.archiving = Archiving(
            ArchiveConfig(every_s=1),
            folder / "archives",
            self.journal,
            bytes(16),
            self.keys,
            clock,
            configuration=lambda: bytes(32),
        )
        self.shipper = Shipper(config, self.archiving, self.keys, is_idle=lambda: True, chance=lambda: 0.5)

    def waiting(self) -> int:
        return self.journal.journal.stats(0).cursors["archive"].depth

    async def close(self) -> None:
        await self.archiving.close()
        await self.journal.close()


def _config(folder: Path, collector: SmallCollector, **changes: Any) -> ShipConfig:
    key_file = folder / "collector.key"
    key_file.write_text(bytes(KEY.verify_key).hex())
    return ShipConfig(url=collector.url, collector_key=key_file, part_kilobytes=16, timeout_s=5, **changes)


def _run(folder: Path, config: ShipConfig, act: Callable[[Device], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        device = Device(folder, config)
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(device.close)
            await device.archiving.archive_all()
            await act(device)

    asyncio.run(run())


def test_archives_go_in_parts_and_leave_the_device_on_a_receipt(tmp_path: Path, collector: SmallCollector) -> None:
    async def act(device: Device) -> None:
        (archive,) = device.archiving.kept
        assert device.waiting() == RECORDS
        await device.shipper.ship_all()
        assert hashlib.sha256(collector.stored[archive.sha256]).digest() == archive.sha256
        assert not device.archiving.kept
        assert device.waiting() == 0
        assert not (tmp_path / "archives" / archive.file_name).exists()

    _run(tmp_path, _config(tmp_path, collector), act)
    assert [method for method, _ in collector.requests][:3] == ["HEAD", "PUT", "PATCH"]


def test_a_broken_link_costs_one_part(tmp_path: Path, collector: SmallCollector) -> None:
    async def act(device: Device) -> None:
        collector.drop_after_parts = 1
        with pytest.raises(LinkDown):
            await device.shipper.ship_all()
        assert device.archiving.kept
        collector.requests.clear()
        await device.shipper.ship_all()
        assert not device.archiving.kept

    _run(tmp_path, _config(tmp_path, collector), act)
    assert collector.requests[:2] == [("HEAD", 0), ("PATCH", 32 * 1024)]


def test_an_archive_that_was_stored_before_needs_only_its_receipt(tmp_path: Path, collector: SmallCollector) -> None:
    async def act(device: Device) -> None:
        (archive,) = device.archiving.kept
        collector.stored[archive.sha256] = b"all of it"
        await device.shipper.ship_all()
        assert not device.archiving.kept

    _run(tmp_path, _config(tmp_path, collector), act)
    assert [method for method, _ in collector.requests] == ["HEAD", "GET"]


def test_a_receipt_of_another_collector_deletes_nothing(tmp_path: Path, collector: SmallCollector) -> None:
    async def act(device: Device) -> None:
        collector.receipt_key = SigningKey(b"\x0a" * 32)
        with pytest.raises(LinkDown, match="not for this archive from this collector"):
            await device.shipper.ship_all()
        assert len(device.archiving.kept) == 1
        assert device.waiting() == RECORDS

    _run(tmp_path, _config(tmp_path, collector), act)


def test_what_the_collector_refuses_for_good_is_kept_and_not_sent_again(
    tmp_path: Path, collector: SmallCollector
) -> None:
    async def act(device: Device) -> None:
        collector.refuse_with = Refusal.ARCHIVE_INVALID
        await device.shipper.ship_all()
        asked = len(collector.requests)
        await device.shipper.ship_all()
        assert len(collector.requests) == asked
        assert device.archiving.kept

    _run(tmp_path, _config(tmp_path, collector), act)


def test_a_device_that_is_not_enrolled_gets_an_explanation(tmp_path: Path, collector: SmallCollector) -> None:
    async def act(device: Device) -> None:
        collector.refuse_with = Refusal.DEVICE_UNKNOWN
        with pytest.raises(LinkDown, match="403 device-unknown"):
            await device.shipper.ship_all()
        assert device.archiving.kept

    _run(tmp_path, _config(tmp_path, collector), act)


def test_a_collector_that_cannot_be_resolved_is_named(
    tmp_path: Path, collector: SmallCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def act(device: Device) -> None:
        monkeypatch.setattr(socket, "getaddrinfo", fail)
        with pytest.raises(LinkDown, match=r"^http://collector\.example:8440: cannot resolve collector\.example$"):
            await device.shipper.ship_all()

    _run(tmp_path, replace(_config(tmp_path, collector), url="http://collector.example:8440"), act)


def test_a_collector_that_is_busy_is_asked_again_later(tmp_path: Path, collector: SmallCollector) -> None:
    async def act(device: Device) -> None:
        collector.refuse_with = Refusal.BUSY
        with pytest.raises(LinkDown, match="503 busy"):
            await device.shipper.ship_all()
        collector.refuse_with = None
        await device.shipper.ship_all()
        assert not device.archiving.kept

    _run(tmp_path, _config(tmp_path, collector), act)


def test_a_stick_takes_copies_and_brings_receipts_back(tmp_path: Path, collector: SmallCollector) -> None:
    stick = tmp_path / "stick"
    key_file = _config(tmp_path, collector).collector_key

    async def act(device: Device) -> None:
        (archive,) = device.archiving.kept
        await device.shipper.ship_all()
        assert hashlib.sha256((stick / archive.file_name).read_bytes()).digest() == archive.sha256
        assert device.archiving.kept, "a copy is no receipt"
        receipt = make_receipt(
            archive=archive.sha256, size_bytes=archive.size_bytes, device=device.keys.address, key=KEY
        )
        (stick / f"{archive.sha256.hex()}.receipt").write_bytes(receipt.to_bytes())
        await device.shipper.ship_all()
        assert not device.archiving.kept

    _run(tmp_path, ShipConfig(directory=stick, collector_key=key_file), act)


def test_what_is_archived_once_is_not_archived_again(tmp_path: Path, collector: SmallCollector) -> None:
    async def act(device: Device) -> None:
        await device.archiving.archive_all()
        await device.journal.call(device.journal.journal.cursor("archive").rewind)
        await device.archiving.archive_all()
        assert len(device.archiving.kept) == 1

    _run(tmp_path, _config(tmp_path, collector), act)


@pytest.mark.parametrize("harm", ["a bit flips", "the file is gone"])
def test_an_archive_that_rotted_is_made_again_from_the_journal(
    tmp_path: Path, collector: SmallCollector, harm: str
) -> None:
    async def act(device: Device) -> None:
        (rotten,) = device.archiving.kept
        path = tmp_path / "archives" / rotten.file_name
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data) if harm == "a bit flips" else path.unlink()
        await device.shipper.ship_all()
        assert collector.stored == {}
        await device.archiving.archive_all()
        (again,) = device.archiving.kept
        assert again.entry.lanes == rotten.entry.lanes
        assert again.entry.replaces == (Replaced(rotten.entry.number, rotten.sha256),)
        await device.shipper.ship_all()
        assert set(collector.stored) == {again.sha256}
        assert device.waiting() == 0

    _run(tmp_path, _config(tmp_path, collector), act)


def test_a_slow_upload_does_not_hold_up_the_end(tmp_path: Path, collector: SmallCollector) -> None:
    async def act(device: Device) -> None:
        shipping = asyncio.create_task(device.shipper.ship_all())
        while not collector.parts:  # noqa: ASYNC110 - it is in another thread
            await asyncio.sleep(0.01)
        shipping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await shipping

    _run(tmp_path, _config(tmp_path, collector, kilobytes_per_s=0.1), act)
    assert not collector.stored


NONSENSE = {
    "nothing arrives, again and again": (202, {UPLOAD_OFFSET: "0"}, b""),
    "a problem of brackets": (500, {}, b"[" * 4000),
    "a problem that is a number": (400, {}, b"7"),
    "a receipt that is none": (201, {}, b"thanks"),
    "an offset that is none": (202, {UPLOAD_OFFSET: "half"}, b""),
    "more than there is": (202, {UPLOAD_OFFSET: "99999999999"}, b""),
    "a text that is too long": (500, {}, b"sorry " * 10_000),
}


@pytest.mark.parametrize("answer", NONSENSE.values(), ids=NONSENSE)
def test_nonsense_from_a_collector_ends_the_attempt_and_nothing_else(
    tmp_path: Path, collector: SmallCollector, answer: tuple[int, dict[str, str], bytes]
) -> None:
    async def act(device: Device) -> None:
        collector.part_answer = answer
        with pytest.raises(LinkDown):
            await within(PATIENCE_S, device.shipper.ship_all())
        assert device.archiving.kept
        collector.part_answer = None
        await device.shipper.ship_all()
        assert not device.archiving.kept

    _run(tmp_path, _config(tmp_path, collector), act)


def test_a_receipt_that_does_not_fit_holds_up_no_other_archive(tmp_path: Path, collector: SmallCollector) -> None:
    stick = tmp_path / "stick"

    async def act(device: Device) -> None:
        (first,) = device.archiving.kept
        await device.shipper.ship_all()
        journal = device.journal.journal
        journal.append(3, Entry(b"one more", "chain", 9000, 0))
        journal.commit(0)
        await device.archiving.archive_all()
        (_, second) = device.archiving.kept
        claim = make_receipt(archive=first.sha256, size_bytes=1 + first.size_bytes, device=device.keys.address, key=KEY)
        (stick / f"{first.sha256.hex()}.receipt").write_bytes(claim.to_bytes())
        with pytest.raises(LinkDown, match="not for this archive"):
            await device.shipper.ship_all()
        assert (stick / second.file_name).exists()

    _run(tmp_path, ShipConfig(directory=stick, collector_key=_config(tmp_path, collector).collector_key), act)


def test_what_was_copied_is_not_read_again_while_it_waits_for_its_receipt(
    tmp_path: Path, collector: SmallCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Path] = []

    def counted(path: Path, archive: KeptArchive) -> bool:
        looks.append(path)
        return is_whole(path, archive)

    async def act(device: Device) -> None:
        monkeypatch.setattr("agent.ship.shipper.is_whole", counted)
        for _ in range(3):
            await device.shipper.ship_all()
        assert len(looks) == 1

    _run(tmp_path, ShipConfig(directory=tmp_path / "stick"), act)


def test_an_archive_of_an_earlier_journal_that_is_gone_holds_up_no_other(
    tmp_path: Path, collector: SmallCollector
) -> None:
    async def act(device: Device) -> None:
        (old,) = device.archiving.kept
        (tmp_path / "archives" / old.file_name).unlink()
        await device.archiving.close()
        archiving = Archiving(
            ArchiveConfig(every_s=1),
            tmp_path / "archives",
            device.journal,
            b"a new journal..!",
            device.keys,
            SystemClock(),
            configuration=lambda: bytes(32),
        )
        device.archiving = archiving
        device.journal.journal.cursor("archive").rewind()
        await archiving.archive_all()
        assert len(archiving.kept) == 2
        shipper = Shipper(
            _config(tmp_path, collector), archiving, device.keys, is_idle=lambda: True, chance=lambda: 0.5
        )
        await shipper.ship_all()
        assert [archive.sha256 for archive in archiving.kept] == [old.sha256]

    _run(tmp_path, _config(tmp_path, collector), act)


def test_a_checkpoint_follows_the_archives_and_is_compared_with_the_log(
    tmp_path: Path, collector: SmallCollector
) -> None:
    async def act(device: Device) -> None:
        await device.shipper.ship_all()
        await device.shipper.report_checkpoint()
        [checkpoint] = collector.checkpoints
        assert (checkpoint.log, checkpoint.size) == (device.archiving.state.log.log, 1)
        assert checkpoint.waiting == 0
        status = device.shipper.status
        assert (status.checkpoint_at_ms, status.held_size) == (checkpoint.made_at_ms, 1)
        assert status.log_problem == ""

    _run(tmp_path, _config(tmp_path, collector), act)


def test_checkpoints_are_sent_at_intervals_also_with_nothing_to_ship(tmp_path: Path, collector: SmallCollector) -> None:
    async def act(device: Device) -> None:
        device.archiving.config = ArchiveConfig(every_s=1, checkpoint_every_s=0.01)
        shipping = asyncio.create_task(device.shipper.run())
        while len(collector.checkpoints) < 4:  # noqa: ASYNC110 - it is in another thread
            await asyncio.sleep(0.01)
        shipping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await shipping
        assert not device.archiving.kept

    _run(tmp_path, _config(tmp_path, collector), act)


def test_a_checkpoint_is_sent_though_archives_are_refused(tmp_path: Path, collector: SmallCollector) -> None:
    async def act(device: Device) -> None:
        collector.part_answer = (413, {}, b'{"code": "too-large"}')
        shipping = asyncio.create_task(device.shipper.run())
        while not collector.checkpoints:  # noqa: ASYNC110 - it is in another thread
            await asyncio.sleep(0.01)
        shipping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await shipping
        assert "too-large" in device.shipper.status.problem
        assert collector.checkpoints[0].waiting == 1

    _run(tmp_path, _config(tmp_path, collector), act)


@pytest.mark.parametrize("status", [LogStatus.BEHIND, LogStatus.FORKED])
def test_a_log_that_the_collector_knows_differently_is_continued_by_a_new_one(
    tmp_path: Path, collector: SmallCollector, status: LogStatus
) -> None:
    async def act(device: Device) -> None:
        old = device.archiving.state.log.log
        collector.answer_with = {"status": status}
        await device.shipper.report_checkpoint()
        assert device.archiving.state.log.log == old  # what waits is shipped first
        await device.shipper.ship_all()
        await device.shipper.report_checkpoint()
        state = device.archiving.state
        assert (state.log.previous_log, state.log.begins) == (old, {3: RECORDS})
        assert state.reason == REASONS[status]
        with pytest.raises(LinkDown, match="a new log has begun less than"):  # one that always objects
            await device.shipper.report_checkpoint()
        collector.answer_with = {}
        await device.shipper.report_checkpoint()
        assert collector.checkpoints[-1].log == state.log.log

    _run(tmp_path, _config(tmp_path, collector), act)


def test_an_archive_of_a_forked_log_is_archived_again_in_a_new_one(tmp_path: Path, collector: SmallCollector) -> None:
    async def act(device: Device) -> None:
        (refused,) = device.archiving.kept
        collector.refuse_with = Refusal.LOG_FORKED
        await device.shipper.ship_all()
        assert not device.archiving.kept
        assert device.archiving.state.log.previous_log == refused.entry.log
        collector.refuse_with = None
        await device.archiving.archive_all()
        (again,) = device.archiving.kept
        assert (again.entry.number, again.entry.lanes) == (0, refused.entry.lanes)
        await device.shipper.ship_all()
        assert set(collector.stored) == {again.sha256}
        assert device.waiting() == 0

    _run(tmp_path, _config(tmp_path, collector), act)


def test_a_collector_that_always_objects_does_not_wear_out_the_disk(tmp_path: Path, collector: SmallCollector) -> None:
    async def act(device: Device) -> None:
        collector.refuse_with = Refusal.LOG_FORKED
        await device.shipper.ship_all()
        await device.archiving.archive_all()
        log = device.archiving.state.log.log
        with pytest.raises(LinkDown, match="a new log has begun less than"):
            await device.shipper.ship_all()
        assert device.archiving.state.log.log == log
        assert len(device.archiving.kept) == 1

    _run(tmp_path, _config(tmp_path, collector), act)


def test_an_archive_with_a_receipt_that_the_collector_lacks_is_reported(
    tmp_path: Path, collector: SmallCollector
) -> None:
    async def act(device: Device) -> None:
        collector.answer_with = {"missing": (NumberRange(0, 1),), "held_size": 0, "held_root": EMPTY_ROOT}
        await device.shipper.report_checkpoint()
        assert device.shipper.status.log_problem == ""  # it waits here
        await device.shipper.ship_all()
        await device.shipper.report_checkpoint()
        assert "holds less than it gave receipts for: it lacks 1 archives" in device.shipper.status.log_problem
        collector.answer_with = {}
        await device.shipper.report_checkpoint()
        assert device.shipper.status.log_problem == ""

    _run(tmp_path, _config(tmp_path, collector), act)


@pytest.mark.parametrize(
    "answer",
    [
        {"checkpoint": bytes(32)},
        {"log": b"another-log-here"},
        {"collector_key": bytes(SigningKey(b"x" * 32).verify_key)},
    ],
    ids=["to another checkpoint", "of another log", "of another collector"],
)
def test_an_answer_that_is_not_meant_is_not_believed(
    tmp_path: Path, collector: SmallCollector, answer: dict[str, Any]
) -> None:
    async def act(device: Device) -> None:
        log = device.archiving.state.log.log
        if "collector_key" in answer:
            collector.receipt_key = SigningKey(b"x" * 32)
        collector.answer_with = {**answer, "status": LogStatus.FORKED}
        with pytest.raises(LinkDown, match="answer to a checkpoint is not for this checkpoint"):
            await device.shipper.report_checkpoint()
        assert device.archiving.state.log.log == log
        assert device.shipper.status.checkpoint_at_ms is None

    _run(tmp_path, _config(tmp_path, collector), act)


def test_a_stick_gets_the_newest_checkpoint_of_each_log(tmp_path: Path) -> None:
    stick = tmp_path / "stick"

    async def act(device: Device) -> None:
        await device.shipper.ship_all()
        await device.shipper.report_checkpoint()
        log = device.archiving.state.log.log
        path = stick / checkpoint_name(device.keys.address, log)
        first = Checkpoint.from_bytes(path.read_bytes())
        assert (first.size, first.waiting) == (1, 1)
        device.journal.journal.append(3, Entry(b"one more", "chain", 9000, 0))
        device.journal.journal.commit(0)
        await device.shipper.report_checkpoint()
        assert Checkpoint.from_bytes(path.read_bytes()).relation_to(first) is Relation.NEWER

    _run(tmp_path, ShipConfig(directory=stick), act)


def test_without_a_mounted_stick_nothing_is_written_if_one_is_required(tmp_path: Path) -> None:
    stick = tmp_path / "stick"

    async def act(device: Device) -> None:
        for work in (device.shipper.ship_all, device.shipper.report_checkpoint):
            with pytest.raises(LinkDown, match=r"no file system is mounted there, and ship\.require_mount is set"):
                await work()
        assert not stick.exists()

    _run(tmp_path, ShipConfig(directory=stick, require_mount=True), act)
