import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from agent.archive.stage import _check_archive_key
from agent.archive.stated import STATED_NAME
from agent.archive.store import SET_ASIDE_SUFFIX
from agent.errors import ConfigError
from agent.journal import Entry
from agent.journal.layout import PAGE_BYTES
from agent.keys import DeviceKeys, Secret
from agent.keys.device_keys import PublicPart
from protocol.devicelog.checkpoint import LaneState, Relation
from protocol.devicelog.entry import LaneRange, Replaced
from protocol.losses import Cause
from tests.support.archives import read_archive
from tests.support.patience import PATIENCE_S
from tests.support.simulated_disk import SimulatedDisk
from tests.support.small_device import LANE, SmallDevice


def _keys(archive: bytes, stated: DeviceKeys | None = None) -> DeviceKeys:
    public = None if stated is None else PublicPart(**asdict(stated.binding))
    return DeviceKeys(identity=Secret(b"\x07" * 32), archive=Secret(archive), vault=Secret(b"\x09" * 32), stated=public)


def test_an_archive_key_that_is_not_the_published_one_is_reported_before_anything_is_archived() -> None:
    published = _keys(b"\x08" * 32)
    _check_archive_key(_keys(b"\x08" * 32, published))
    with pytest.raises(
        ConfigError, match=r"device\.key_file: the private keys and the public keys belong to different devices"
    ):
        _check_archive_key(_keys(b"\x0a" * 32, published))


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[SmallDevice]:
    device = SmallDevice(folder)
    try:
        yield device
    finally:
        await device.close()


def on_a_device(work: Callable[[SmallDevice], Coroutine[Any, Any, None]], folder: Path) -> None:
    async def live() -> None:
        async with asyncio.timeout(PATIENCE_S), running(folder) as device:
            await work(device)

    asyncio.run(live())


def test_damage_stands_in_the_manifest_of_the_archive_it_was_met_for_and_is_kept_until_the_receipt(
    tmp_path: Path,
) -> None:
    async def work(device: SmallDevice) -> None:
        device.write(3)
        device.write(3)
        device.rot(60)  # in the row of a record
        await device.archiving.archive_all()
        [archive], [gap] = device.archiving.kept, device.gaps
        assert [(loss.number, loss.count) for loss in device.losses_in(archive)] == [(gap.number, 1)]
        assert not device.archiving.is_receipted(gap)
        await device.ship()
        assert device.gaps == ()

    on_a_device(work, tmp_path)


def test_a_loss_goes_with_the_archive_that_is_made_again(tmp_path: Path) -> None:
    async def work(device: SmallDevice) -> None:
        device.write(6)
        device.rot(60)  # in the row of a record
        await device.archiving.archive_all()
        [before] = device.gaps
        await device.rot_archive()
        await device.restart()
        await device.archiving.archive_all()
        [archive] = device.archiving.kept
        assert [loss.number for loss in device.losses_in(archive)] == [before.number]

    on_a_device(work, tmp_path)


def test_what_is_shed_after_it_was_archived_is_no_loss_to_the_centre(tmp_path: Path) -> None:
    async def work(device: SmallDevice) -> None:
        device.write(50)
        await device.archiving.archive_all()
        for _ in range(6):
            device.write(20)
        shed = device.gaps
        assert {gap.loss.cause for gap in shed} == {Cause.SHED}
        archived = [gap for gap in shed if device.archiving.is_archived(gap)]
        lost = [gap for gap in shed if gap not in archived]
        assert max(gap.loss.last_position for gap in archived) == 49
        assert min(gap.loss.first_position for gap in lost) == 50
        await device.settle()
        reported = {loss.number for loss in device.reported()}
        assert reported == {gap.number for gap in lost}
        assert device.gaps == ()
        assert device.unaccounted() == set()

    on_a_device(work, tmp_path)


def test_what_was_archived_and_shed_is_a_loss_when_its_archive_rots(tmp_path: Path) -> None:
    async def work(device: SmallDevice) -> None:
        device.write(50)
        await device.archiving.archive_all()
        for _ in range(6):
            device.write(20)
        assert any(map(device.archiving.is_archived, device.gaps))
        await device.rot_archive()
        assert not any(map(device.archiving.is_archived, device.gaps))
        await device.settle()
        assert device.unaccounted() == set()
        assert device.gaps == ()

    on_a_device(work, tmp_path)


def lose_state_and_end(disk: SimulatedDisk) -> None:
    """Both copies of the journal's state and the end of a lane."""
    for name in ("state-0", "state-1"):
        disk.files.pop(name)
    segment = disk.files["0000.segment"].content
    segment[PAGE_BYTES:] = bytes(len(segment) - PAGE_BYTES)


def test_positions_that_were_archived_are_not_used_again_after_the_journal_lost_its_end(tmp_path: Path) -> None:
    async def work(device: SmallDevice) -> None:
        for _ in range(4):
            device.write(3)
        await device.archiving.archive_all()
        await device.ship()
        await device.restart(lose_state_and_end)
        device.write(3)
        await device.archiving.archive_all()
        [archive] = device.archiving.kept
        records = read_archive(device.read(archive))[1]
        assert [(record.position, record.timestamp_ms) for record in records] == [(12, 1012), (13, 1013), (14, 1014)]
        assert archive.entry.lanes == (LaneRange(LANE, 0, 12, 15),)

    on_a_device(work, tmp_path)


def test_positions_that_a_checkpoint_stated_are_not_used_again_and_are_a_loss(tmp_path: Path) -> None:
    async def work(device: SmallDevice) -> None:
        for _ in range(4):
            device.write(3)
        checkpoint = await device.archiving.checkpoint()
        assert checkpoint.lanes == (LaneState(LANE, 0, 12, 0, 0, 0),)
        await device.restart(lose_state_and_end)
        device.write(3)
        await device.settle()
        later = await device.archiving.checkpoint()
        assert later.relation_to(checkpoint) is Relation.NEWER
        assert later.log == checkpoint.log
        [lane] = later.lanes
        assert (lane.committed, lane.archived, lane.released) == (15, 15, 15)
        assert lane.lost == sum(loss.count for loss in device.reported()) > 0
        assert device.unaccounted() == set()

    on_a_device(work, tmp_path)


def test_a_checkpoint_states_what_is_archived_and_released_and_nothing_that_waits_to_be_committed(
    tmp_path: Path,
) -> None:
    async def work(device: SmallDevice) -> None:
        device.write(5)
        await device.archiving.archive_all()
        device.write(2)
        device.journal.append(LANE, Entry(b"not committed", "chain", 9000, 0))
        [archive] = device.archiving.kept
        checkpoint = await device.archiving.checkpoint()
        assert (checkpoint.size, checkpoint.last, checkpoint.waiting) == (1, archive.sha256, 1)
        assert checkpoint.lanes == (LaneState(LANE, 0, 7, 5, 0, 0),)
        await device.ship()
        assert (await device.archiving.checkpoint()).lanes == (LaneState(LANE, 0, 7, 5, 5, 0),)

    on_a_device(work, tmp_path)


def test_a_checkpoint_is_written_only_if_it_states_more(tmp_path: Path) -> None:
    async def work(device: SmallDevice) -> None:
        device.write(5)
        await device.archiving.checkpoint()
        path = tmp_path / STATED_NAME
        written = path.stat().st_ino
        await device.archiving.checkpoint()
        assert path.stat().st_ino == written
        device.write(1)
        await device.archiving.checkpoint()
        assert path.stat().st_ino != written

    on_a_device(work, tmp_path)


def test_an_archive_covers_what_was_lost_at_the_end_of_a_lane(tmp_path: Path) -> None:
    async def work(device: SmallDevice) -> None:
        device.write(3)
        device.journal.advance_to(LANE, 10, 0)
        await device.archiving.archive_all()
        [archive] = device.archiving.kept
        assert archive.entry.lanes == (LaneRange(LANE, 0, 0, 10),)
        assert archive.lost == ((LANE, 7),)
        device.journal.advance_to(LANE, 12, 0)
        await device.archiving.archive_all()
        assert device.archiving.kept[1].entry.lanes == (LaneRange(LANE, 0, 10, 12),)
        assert (await device.archiving.checkpoint()).lanes[0].lost == 9

    on_a_device(work, tmp_path)


def test_only_what_a_damaged_archive_held_is_archived_again(tmp_path: Path) -> None:
    async def work(device: SmallDevice) -> None:
        for _ in range(3):
            device.write(4)
            await device.archiving.archive_all()
        first, second, third = device.archiving.kept
        await device.archiving.archive_again(second)
        assert (await device.archiving.checkpoint()).lanes[0].released == 0
        device.write(2)
        await device.archiving.archive_all()
        *old, again, new = device.archiving.kept
        assert old == [first, third]
        assert again.entry.lanes == second.entry.lanes
        assert again.entry.replaces == (Replaced(second.entry.number, second.sha256),)
        assert new.entry.lanes == (LaneRange(LANE, 0, 12, 14),)
        records = [record.position for archive in (again, new) for record in read_archive(device.read(archive))[1]]
        assert records == [4, 5, 6, 7, 12, 13]

    on_a_device(work, tmp_path)


def test_a_damaged_archive_whose_records_were_shed_is_replaced_by_one_that_covers_its_range(tmp_path: Path) -> None:
    async def work(device: SmallDevice) -> None:
        device.write(10)
        await device.archiving.archive_all()
        for _ in range(12):
            device.write(20)
            await device.archiving.archive_all()
        rotten = device.archiving.kept[0]
        await device.archiving.archive_again(rotten)
        await device.archiving.archive_all()
        [again] = [each for each in device.archiving.kept if each.entry.replaces]
        assert again.entry.lanes == rotten.entry.lanes
        assert again.lost == ((LANE, 10),)
        assert not device.archiving.state.damaged
        await device.settle()
        assert device.unaccounted() == set()

    on_a_device(work, tmp_path)


def test_what_the_collector_refused_is_archived_again_in_a_new_log(tmp_path: Path) -> None:
    async def work(device: SmallDevice) -> None:
        for _ in range(3):
            device.write(4)
            await device.archiving.archive_all()
        await device.ship()
        old = device.archiving.state.log
        refused = list(device.archiving.kept)
        await device.archiving.begin_log("the collector holds other archives", refused[0])
        assert len(refused) == 2
        assert not any((tmp_path / archive.file_name).exists() for archive in refused)
        await device.restart()
        state = device.archiving.state
        assert (state.log.previous_log, state.reason) == (old.log, "the collector holds other archives")
        await device.archiving.archive_all()
        [again] = device.archiving.kept
        assert (again.entry.number, again.entry.lanes) == (0, (LaneRange(LANE, 4, 4, 12),))
        assert [record.position for record in read_archive(device.read(again))[1]] == list(range(4, 12))
        await device.settle()
        assert (await device.archiving.checkpoint()).lanes == (LaneState(LANE, 4, 12, 12, 12, 0),)

    on_a_device(work, tmp_path)


def test_refused_archives_that_the_journal_no_longer_holds_are_set_aside_and_not_deleted(tmp_path: Path) -> None:
    async def work(device: SmallDevice) -> None:
        device.write(10)
        await device.archiving.archive_all()
        for _ in range(12):
            device.write(20)
        [archive] = device.archiving.kept
        data = device.read(archive)
        await device.archiving.begin_log("the collector holds other archives", archive)
        assert (tmp_path / (archive.file_name + SET_ASIDE_SUFFIX)).read_bytes() == data
        await device.restart()
        await device.settle()
        assert device.unaccounted() == set()  # reported as lost in the new log
        assert (tmp_path / (archive.file_name + SET_ASIDE_SUFFIX)).read_bytes() == data

    on_a_device(work, tmp_path)


def test_a_new_log_with_nothing_to_archive_again_begins_where_the_old_one_ended(tmp_path: Path) -> None:
    async def work(device: SmallDevice) -> None:
        device.write(4)
        await device.archiving.archive_all()
        [waiting] = device.archiving.kept
        await device.archiving.begin_log("the collector holds more of the log")
        device.write(1)
        await device.archiving.archive_all()
        [still_waiting, new] = device.archiving.kept
        assert still_waiting == waiting
        assert new.entry.lanes == (LaneRange(LANE, 4, 4, 5),)

    on_a_device(work, tmp_path)


def test_a_damaged_archive_of_the_previous_log_is_archived_again_in_a_further_one(tmp_path: Path) -> None:
    async def work(device: SmallDevice) -> None:
        device.write(4)
        await device.archiving.archive_all()
        await device.archiving.begin_log("the collector holds more of the log")
        device.write(3)
        await device.archiving.archive_all()
        await device.rot_archive()
        await device.settle()
        assert device.unaccounted() == set()
        assert device.archiving.state.log.begins == {LANE: 0}

    on_a_device(work, tmp_path)


def test_a_lost_archive_state_begins_a_log_that_continues_the_one_of_the_last_checkpoint(tmp_path: Path) -> None:
    async def work(device: SmallDevice) -> None:
        device.write(4)
        await device.settle()
        checkpoint = await device.archiving.checkpoint()
        (tmp_path / "archives.state").unlink()
        await device.restart()
        state = device.archiving.state
        assert (state.log.previous_log, state.log.begins) == (checkpoint.log, {LANE: 4})
        assert state.reason == "the archive state was lost or damaged"

    on_a_device(work, tmp_path)


def test_archiving_that_begins_late_begins_with_what_the_journal_still_has(tmp_path: Path) -> None:
    async def work(device: SmallDevice) -> None:
        device.write(4)
        await device.settle()
        device.write(2)
        (tmp_path / "archives.state").unlink()
        await device.restart()
        await device.archiving.archive_all()
        assert [archive.entry.lanes for archive in device.archiving.kept] == [(LaneRange(LANE, 4, 4, 6),)]

    on_a_device(work, tmp_path)
