"""Devices whose disk was restored, copied or wiped, with a real collector: no reading is lost, and the fork is seen."""

import asyncio
import contextlib
import hashlib
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent.archive.settings import ArchiveConfig, ShipConfig
from agent.archive.stage import Archiving
from agent.clock import SystemClock
from agent.journal import DirectoryDisk, Entry, Journal, JournalSettings
from agent.journal.thread import JournalThread, open_journal_id
from agent.keys import DeviceKeys
from agent.ship.shipper import Shipper
from ingest.collector.devices import Device as EnrolledDevice
from protocol.devicelog.answer import HeartbeatAnswer, LogStatus
from protocol.shipping import checkpoint_name, checkpoint_path
from tests.support.archives import read_archive
from tests.support.collectors import COLLECTOR_KEY, RunningCollector, running_collector

KEYS = DeviceKeys.generate(lambda count: b"\x21" * count)
LANE = 3


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[RunningCollector]:
    with running_collector(tmp_path / "collector") as running:
        binding = KEYS.binding
        running.intake.allow_list.enrol(
            EnrolledDevice(address=binding.address, enrolled_at_ms=1, archive_key=binding.archive_key)
        )
        yield running


class Device:
    """One life of a device, from its start to its end."""

    def __init__(self, folder: Path, collector: RunningCollector) -> None:
        key_file = folder.parent / "collector.pub"
        key_file.write_text(COLLECTOR_KEY.hex())
        clock, disk = SystemClock(), DirectoryDisk(folder / "journal")
        new_id = int.from_bytes(hashlib.sha256(folder.name.encode()).digest()[:7])
        journal = Journal(disk, JournalSettings(cursors=("archive",)), new_journal_id=new_id, now_ms=0)
        self.journal = JournalThread(journal, clock)
        self.archiving = Archiving(
            ArchiveConfig(every_s=1),
            folder / "archives",
            self.journal,
            open_journal_id(disk),
            KEYS,
            clock,
            configuration=lambda: bytes(32),
        )
        config = ShipConfig(url=f"http://{collector.host}:{collector.port}", collector_key=key_file, timeout_s=5)
        self.shipper = Shipper(config, self.archiving, KEYS, is_idle=lambda: True, chance=lambda: 0.5)

    async def write(self, *texts: str) -> None:
        entries = [Entry(text.encode(), "chain", 1000 + at, 0) for at, text in enumerate(texts)]
        self.journal.journal.append_many(LANE, entries)
        self.journal.journal.commit(0)
        await self.archiving.archive_all()

    async def ship(self) -> None:
        await self.shipper.ship_all()
        await self.archiving.archive_all()  # what has to be archived again
        await self.shipper.ship_all()
        await self.shipper.report_checkpoint()


@asynccontextmanager
async def started(folder: Path, collector: RunningCollector) -> AsyncIterator[Device]:
    device = Device(folder, collector)
    try:
        yield device
    finally:
        await device.archiving.close()
        await device.journal.close()


def collected(collector: RunningCollector) -> list[str]:
    """The texts of the messages in the landing area, without duplicates."""
    data = [file for name, file in collector.landed().items() if name.endswith(".hga")]
    return sorted({record.text.decode() for each in data for record in read_archive(each)[1]})


def answer_to_newest_checkpoint(collector: RunningCollector, log: bytes) -> HeartbeatAnswer:
    data = (collector.folders.landing / checkpoint_name(KEYS.address, log)).read_bytes()
    reply = collector.ask("PUT", checkpoint_path(log), data)
    assert reply.status == 200
    return HeartbeatAnswer.from_bytes(reply.body)


def test_a_restored_backup_continues_in_a_new_log_and_no_reading_is_lost(
    tmp_path: Path, collector: RunningCollector
) -> None:
    async def live() -> None:
        folder = tmp_path / "device"
        async with started(folder, collector) as device:
            await device.write("one", "two")
            await device.ship()
            old = device.archiving.state.log.log
        shutil.copytree(folder, tmp_path / "backup")
        async with started(folder, collector) as device:
            await device.write("three")
            await device.ship()
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / "backup", folder)
        async with started(folder, collector) as device:
            await device.shipper.report_checkpoint()
            state = device.archiving.state
            assert (state.log.previous_log, state.log.size) == (old, 0)
            assert "its disk is an old copy" in state.reason
            await device.write("four")
            await device.ship()
            assert device.shipper.status.log_problem == ""
            assert answer_to_newest_checkpoint(collector, state.log.log).status is LogStatus.OK
        assert collected(collector) == ["four", "one", "three", "two"]

    asyncio.run(live())


def test_a_restored_backup_that_writes_before_it_asks_loses_nothing_either(
    tmp_path: Path, collector: RunningCollector
) -> None:
    async def live() -> None:
        folder = tmp_path / "device"
        async with started(folder, collector) as device:
            await device.write("one", "two")
        shutil.copytree(folder, tmp_path / "backup")
        async with started(folder, collector) as device:
            await device.write("three")
            await device.ship()
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / "backup", folder)
        async with started(folder, collector) as device:
            await device.write("four")  # with the number and the positions of "three"
            assert [archive.entry.number for archive in device.archiving.kept] == [0, 1]
            await device.ship()
            assert not device.archiving.kept
            assert device.archiving.state.log.previous_log
        assert collected(collector) == ["four", "one", "three", "two"]

    asyncio.run(live())


def test_of_a_copied_card_the_second_device_continues_in_a_log_of_its_own(
    tmp_path: Path, collector: RunningCollector
) -> None:
    async def live() -> None:
        async with started(tmp_path / "one", collector) as device:
            await device.write("shared")
            await device.ship()
            log = device.archiving.state.log.log
        shutil.copytree(tmp_path / "one", tmp_path / "two")
        async with started(tmp_path / "one", collector) as one, started(tmp_path / "two", collector) as two:
            await one.write("of one")
            await two.write("of two")
            await one.ship()
            await two.ship()
            assert one.archiving.state.log.log == log
            assert two.archiving.state.log.previous_log == log
            await one.shipper.report_checkpoint()  # the collector knows of the fork now
            assert one.archiving.state.log.previous_log == log
            for device in (one, two):
                await device.write("later")
                await device.ship()
                assert not device.archiving.kept
                found = answer_to_newest_checkpoint(collector, device.archiving.state.log.log)
                assert found.status is LogStatus.OK
            assert one.archiving.state.log.log != two.archiving.state.log.log
        assert collected(collector) == ["later", "of one", "of two", "shared"]

    asyncio.run(live())


def test_a_wiped_data_directory_begins_a_log_that_names_none(tmp_path: Path, collector: RunningCollector) -> None:
    async def live() -> None:
        folder = tmp_path / "device"
        async with started(folder, collector) as device:
            await device.write("one")
            await device.ship()
            old = device.archiving.state.log.log
        shutil.rmtree(folder)
        async with started(folder, collector) as device:
            await device.write("two")
            await device.ship()
            state = device.archiving.state
            assert (state.log.previous_log, state.reason) == (b"", "")
            assert state.log.log != old
        assert collected(collector) == ["one", "two"]

    asyncio.run(live())


def test_a_lost_archive_state_continues_the_log_of_the_archives_that_are_left(
    tmp_path: Path, collector: RunningCollector
) -> None:
    async def live() -> None:
        folder = tmp_path / "device"
        async with started(folder, collector) as device:
            await device.write("one")
            await device.ship()
            await device.write("two")
            old = device.archiving.state.log.log
        with contextlib.suppress(FileNotFoundError):
            (folder / "archives" / "checkpoint.state").unlink()
        (folder / "archives" / "archives.state").write_bytes(b"damaged")
        async with started(folder, collector) as device:
            await device.write("three")
            assert device.archiving.state.log.previous_log == old
            await device.ship()
            assert not device.archiving.kept
        assert collected(collector) == ["one", "three", "two"]

    asyncio.run(live())
