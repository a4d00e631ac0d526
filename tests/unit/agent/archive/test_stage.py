import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from agent.archive.stage import _check_archive_key
from agent.errors import ConfigError
from agent.journal.layout import PAGE_BYTES
from agent.keys import DeviceKeys, Secret
from agent.keys.device_keys import PublicPart
from protocol.losses import Cause
from tests.support.archives import read_archive
from tests.support.patience import PATIENCE_S
from tests.support.simulated_disk import SimulatedDisk
from tests.support.small_device import SmallDevice


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


def test_what_stands_where_something_else_was_archived_before_the_state_was_lost_is_archived_too(
    tmp_path: Path,
) -> None:
    """Both copies of the journal's state and the end of a lane are gone: positions are used a second time."""

    def lose_state_and_end(disk: SimulatedDisk) -> None:
        for name in ("state-0", "state-1"):
            disk.files.pop(name)
        segment = disk.files["0000.segment"].content
        segment[PAGE_BYTES:] = bytes(len(segment) - PAGE_BYTES)

    async def work(device: SmallDevice) -> None:
        for _ in range(4):
            device.write(3)
        await device.archiving.archive_all()
        await device.ship()
        await device.restart(lose_state_and_end)
        device.write(3)
        await device.archiving.archive_all()
        [archive] = device.archiving.kept
        assert [record.timestamp_ms for record in read_archive(device.read(archive))[1]] == [1012, 1013, 1014]

    on_a_device(work, tmp_path)
