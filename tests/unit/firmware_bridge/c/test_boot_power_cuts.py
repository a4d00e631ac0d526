"""The power fails at every write and every erase of an update; the device always starts whole, verified firmware."""

import contextlib
import itertools
import random

import pytest

from protocol.firmware import Package
from tests.effort import seeds
from tests.support.boot_library import SECTOR_BYTES, BootableDevice, PowerCut, SimulatedFlash, Status
from tests.support.firmware_samples import BUILDER_KEY, image, package

pytestmark = pytest.mark.needs("gcc", "build-essential")

OLDEST = package(image(2 * SECTOR_BYTES, seed=0), version="0.9.0", counter=0)
OLD = package(image(3 * SECTOR_BYTES + 100, seed=1), version="1.0.0", counter=1)
NEW = package(image(3 * SECTOR_BYTES + 333, seed=2), version="1.1.0", counter=2)
TEARINGS = seeds(test=1, soak=10)  # each tears the operation in another way


def device_with_old(*, cut_at: int | None = None, fail_at: int | None = None, seed: int = 0) -> BootableDevice:
    """It came with the oldest and has since been updated, so that it must never go back to what the factory put in."""
    flash = SimulatedFlash(chance=random.Random(seed))
    flash.install(0, OLDEST)
    device = BootableDevice(flash, BUILDER_KEY)
    bring_up_to_date(device, OLD)
    flash.power_on(cut_at=cut_at, fail_at=fail_at)
    return device


def assert_runs_old_or_new(device: BootableDevice) -> None:
    running = device.boot()
    assert running is not None, "the device does not start"
    assert running.image in (OLD.image, NEW.image)
    assert device.record.lowest_counter >= OLD.manifest.counter, "the device forgot what it must not go back to"


def bring_up_to_date(device: BootableDevice, wanted: Package = NEW) -> None:
    """What a host does until the device runs `wanted` and has confirmed it, wherever it was before."""
    for _ in range(4):
        running = device.boot()
        assert running is not None, "the device does not start"
        if running.image != wanted.image:
            assert device.send(wanted) is Status.OK
        elif device.confirm() is Status.OK and not running.is_trial:
            return
    raise AssertionError("the device does not come up to date")


def count_operations() -> int:
    device = device_with_old()
    bring_up_to_date(device)
    return device.flash.operations


@pytest.mark.parametrize("seed", TEARINGS)
def test_whenever_the_power_fails_the_device_starts_the_whole_old_or_the_whole_new_image(seed: int) -> None:
    for cut_at in itertools.count():
        device = device_with_old(cut_at=cut_at, seed=seed)
        try:
            bring_up_to_date(device)
        except PowerCut:
            device.flash.power_on()
        else:
            assert cut_at == count_operations()
            break
        assert_runs_old_or_new(device)
        bring_up_to_date(device)


@pytest.mark.parametrize("seed", TEARINGS)
def test_flash_that_fails_once_and_then_loses_power_costs_nothing_but_the_update(seed: int) -> None:
    for fail_at in range(count_operations()):
        device = device_with_old(fail_at=fail_at, cut_at=fail_at + 1 + (fail_at + seed) % 3, seed=seed)
        with contextlib.suppress(PowerCut):
            for _ in range(2):  # a host that tries again without a reset
                device.boot()
                device.send(NEW)
                device.send(NEW)
                device.boot()
                device.confirm()
                device.confirm()
        device.flash.power_on()
        assert_runs_old_or_new(device)
        bring_up_to_date(device)


@pytest.mark.parametrize("seed", TEARINGS)
def test_an_update_goes_on_at_the_sector_in_which_it_was_cut(seed: int) -> None:
    for cut_at in itertools.count():
        device = device_with_old(cut_at=cut_at, seed=seed)
        device.boot()
        arrived = 0
        try:
            assert device.begin(NEW) is Status.OK
            while arrived < len(NEW.image):
                assert device.chunk(arrived, NEW.image[arrived : arrived + 64]) is Status.OK
                arrived = device.next_offset
            break
        except PowerCut:
            device.flash.power_on()
        device.boot()
        assert device.begin(NEW) is Status.OK
        in_whole_sectors = arrived // SECTOR_BYTES * SECTOR_BYTES
        just_done = min(in_whole_sectors + SECTOR_BYTES, len(NEW.image))
        assert device.next_offset in (0, in_whole_sectors, just_done)
        if device.next_offset == 0 < in_whole_sectors:
            assert arrived + 64 >= just_done, "only a torn mark makes it begin anew"


@pytest.mark.parametrize("seed", seeds(test=3, soak=100))
def test_power_that_keeps_failing_only_delays_the_update(seed: int) -> None:
    chance = random.Random(seed)
    device = device_with_old(cut_at=chance.randrange(40), seed=seed)
    for _ in range(60):
        try:
            bring_up_to_date(device)
        except PowerCut:
            device.flash.power_on(cut_at=chance.randrange(2, 60))
        else:
            return
    device.flash.power_on()
    bring_up_to_date(device)


def test_an_image_that_never_confirms_itself_is_given_up_whenever_the_power_fails() -> None:
    for cut_at in range(count_operations() + 4):
        device = device_with_old(cut_at=cut_at, seed=cut_at)
        try:
            device.boot()
            assert device.send(NEW) is Status.OK
            for _ in range(5):
                device.boot()
        except PowerCut:
            device.flash.power_on()
        for _ in range(4):
            running = device.boot()
        assert running is not None
        assert (running.image, running.is_trial) == (OLD.image, False)
