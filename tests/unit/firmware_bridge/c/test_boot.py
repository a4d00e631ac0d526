"""What the boot loader runs, on trial and after it, and what it never runs."""

import pytest

from protocol.firmware import Package
from tests.support.boot_library import BootableDevice, Running, SimulatedFlash, Status, record_address, slot_address
from tests.support.firmware_samples import BUILDER_KEY, UNKNOWN, image, package

pytestmark = pytest.mark.needs("gcc", "build-essential")

OLD = package(image(700, seed=1), version="1.0.0", counter=1)
NEW = package(image(900, seed=2), version="1.1.0", counter=2)
ATTEMPTS = 3
REVERTED, CONFIRMED = 2, 1


def device_with(*slots: Package) -> BootableDevice:
    flash = SimulatedFlash()
    for number, content in enumerate(slots):
        flash.install(number, content)
    return BootableDevice(flash, BUILDER_KEY)


def boot(device: BootableDevice) -> Running:
    running = device.boot()
    assert running is not None
    return running


def on_trial() -> BootableDevice:
    device = device_with(OLD)
    boot(device)
    assert device.send(NEW) is Status.OK
    assert boot(device) == Running(image=NEW.image, slot=1, is_trial=True)
    return device


def test_a_device_from_the_factory_runs_its_first_slot() -> None:
    assert boot(device_with(OLD)) == Running(image=OLD.image, slot=0, is_trial=False)


def test_a_staged_image_runs_on_trial_and_stays_once_confirmed() -> None:
    device = on_trial()
    assert device.confirm() is Status.OK
    assert boot(device) == Running(image=NEW.image, slot=1, is_trial=False)
    assert (device.record.last_end, device.record.lowest_counter) == (CONFIRMED, 2)


def test_an_image_that_does_not_confirm_itself_is_tried_a_few_times_and_given_up() -> None:
    device = on_trial()
    for _ in range(ATTEMPTS - 1):
        assert boot(device).image == NEW.image
    assert boot(device) == Running(image=OLD.image, slot=0, is_trial=False)
    assert device.record.last_end == REVERTED
    assert boot(device).image == OLD.image


def test_what_was_given_up_can_be_tried_again_without_sending_it_again() -> None:
    device = on_trial()
    for _ in range(ATTEMPTS):
        boot(device)
    assert device.begin(NEW) is Status.OK
    assert device.next_offset == len(NEW.image)
    assert device.end() is Status.OK
    assert boot(device).image == NEW.image


def test_an_image_that_decays_before_its_trial_is_not_tried() -> None:
    device = device_with(OLD)
    boot(device)
    assert device.send(NEW) is Status.OK
    device.flash.memory[slot_address(1) + 600] ^= 1
    assert boot(device) == Running(image=OLD.image, slot=0, is_trial=False)


def test_when_the_active_slot_decays_the_other_one_runs_and_becomes_the_active_one() -> None:
    device = device_with(OLD, package(image(900, seed=2), counter=1))
    device.flash.memory[slot_address(0) + 700] ^= 1
    assert boot(device).slot == 1
    assert device.record.active == 1


def test_a_decayed_device_does_not_fall_back_below_what_it_confirmed() -> None:
    device = on_trial()
    device.confirm()
    device.flash.memory[slot_address(1) + 700] ^= 1
    assert device.boot() is None


def test_an_update_after_an_update_goes_to_the_slot_that_does_not_run() -> None:
    device = on_trial()
    device.confirm()
    boot(device)
    newest = package(image(500, seed=3), counter=3)
    assert device.send(newest) is Status.OK
    assert boot(device) == Running(image=newest.image, slot=0, is_trial=True)


@pytest.mark.parametrize(
    "content",
    [
        package(image(700), by=UNKNOWN),
        package(image(700), board="bench-2"),
        package(image(700), board="bench-"),
        package(image(700), board="bench-11"),
    ],
    ids=["signed with an unknown key", "another board", "a shorter board", "a longer board"],
)
def test_firmware_for_another_device_does_not_run_however_it_was_written(content: Package) -> None:
    assert device_with(content, content).boot() is None


def test_any_changed_byte_of_head_or_image_keeps_an_image_from_running() -> None:
    device = device_with(OLD)
    for place in [*range(len(OLD.head())), *range(512, 512 + 700, 13), 512 + 699]:
        device.flash.memory[slot_address(0) + place] ^= 0x10
        assert device.boot() is None, f"byte {place}"
        device.flash.memory[slot_address(0) + place] ^= 0x10
    assert boot(device).image == OLD.image


def test_either_of_two_keys_may_have_signed() -> None:
    spare = bytes(UNKNOWN.verify_key)
    for content in (OLD, package(image(700), by=UNKNOWN)):
        flash = SimulatedFlash()
        flash.install(0, content)
        assert boot(BootableDevice(flash, BUILDER_KEY, spare)).image == content.image


def test_one_damaged_boot_record_is_made_good_by_the_other() -> None:
    device = on_trial()
    device.confirm()
    for place in (0, 1):
        kept = bytes(device.flash.memory)
        device.flash.memory[record_address(place) + 8] ^= 1
        assert boot(device).image in (OLD.image, NEW.image)
        device.flash.memory[:] = kept


def test_flash_of_nothing_or_of_noise_runs_nothing() -> None:
    device = device_with()
    assert device.boot() is None
    device.flash.memory[:] = image(len(device.flash.memory), seed=9)
    assert device.boot() is None
