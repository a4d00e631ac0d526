"""What the running firmware takes and refuses of an update, and that a refusal changes nothing."""

import pytest

from protocol.firmware import Package
from tests.support.boot_library import (
    CAPACITY_BYTES,
    SECTOR_BYTES,
    BootableDevice,
    SimulatedFlash,
    Status,
    slot_address,
)
from tests.support.firmware_samples import BUILDER_KEY, UNKNOWN, image, package

pytestmark = pytest.mark.needs("gcc", "build-essential")

OLD = package(image(700, seed=1), version="2.0.0", counter=5)
NEW = package(image(1300, seed=2), version="2.1.0", counter=5)


def running_old() -> BootableDevice:
    """It has confirmed an update, so that its lowest counter is 5."""
    flash = SimulatedFlash()
    flash.install(0, package(image(300), counter=1))
    device = BootableDevice(flash, BUILDER_KEY)
    device.boot()
    assert device.send(OLD) is Status.OK
    device.boot()
    assert device.confirm() is Status.OK
    return device


@pytest.mark.parametrize(
    ("refused", "status"),
    [
        (package(image(700), counter=5, by=UNKNOWN), Status.BAD_SIGNATURE),
        (package(image(700), counter=5, board="bench-2"), Status.OTHER_BOARD),
        (package(image(700), counter=4), Status.ROLLED_BACK),
        (package(image(CAPACITY_BYTES + 1), counter=5), Status.TOO_LARGE),
    ],
    ids=lambda value: value.name if isinstance(value, Status) else "",
)
def test_a_manifest_is_refused_before_anything_is_erased(refused: Package, status: Status) -> None:
    device = running_old()
    before = bytes(device.flash.memory)
    assert device.begin(refused) is status
    assert device.chunk(0, refused.image[:64]) is Status.NOT_BEGUN
    assert device.flash.memory == before


def test_a_signature_is_for_its_own_manifest() -> None:
    device = running_old()
    assert device.begin_with(NEW.manifest.to_bytes(), OLD.signature) is Status.BAD_SIGNATURE
    assert device.begin_with(b"", OLD.signature) is Status.BAD_MANIFEST
    assert device.begin_with(bytes(300), OLD.signature) is Status.BAD_MANIFEST


def test_a_refused_manifest_does_not_disturb_an_update_under_way() -> None:
    device = running_old()
    assert device.begin(NEW) is Status.OK
    assert device.chunk(0, NEW.image[:64]) is Status.OK
    assert device.begin(package(image(700), counter=4)) is Status.ROLLED_BACK
    assert device.chunk(64, NEW.image[64:128]) is Status.OK


def test_an_image_as_large_as_the_slot_fits() -> None:
    device = running_old()
    assert device.send(package(image(CAPACITY_BYTES), counter=6)) is Status.OK
    running = device.boot()
    assert running is not None
    assert len(running.image) == CAPACITY_BYTES


def test_an_image_that_is_not_the_manifests_is_refused_and_discarded() -> None:
    device = running_old()
    assert device.begin(NEW) is Status.OK
    tampered = NEW.image[:1000] + bytes([NEW.image[1000] ^ 1]) + NEW.image[1001:]
    for start in range(0, len(tampered), 64):
        assert device.chunk(start, tampered[start : start + 64]) is Status.OK
    assert device.end() is Status.BAD_DIGEST
    running = device.boot()
    assert running is not None
    assert running.image == OLD.image
    assert device.begin(NEW) is Status.OK
    assert device.next_offset == 0


@pytest.mark.parametrize(
    ("offset", "size_bytes"), [(0, 64), (128, 64), (64, 63), (64, 1300)], ids=["again", "skipping", "odd", "too long"]
)
def test_a_chunk_out_of_place_is_refused_and_the_right_one_still_taken(offset: int, size_bytes: int) -> None:
    device = running_old()
    assert device.begin(NEW) is Status.OK
    assert device.chunk(0, NEW.image[:64]) is Status.OK
    assert device.chunk(offset, bytes(size_bytes)) is Status.OUT_OF_PLACE
    assert device.next_offset == 64
    assert device.chunk(64, NEW.image[64:128]) is Status.OK


@pytest.mark.parametrize("chunk_bytes", [8, 64, 504, SECTOR_BYTES, 960])
def test_chunks_may_have_any_size_of_whole_units(chunk_bytes: int) -> None:
    device = running_old()
    assert device.send(NEW, chunk_bytes=chunk_bytes) is Status.OK
    running = device.boot()
    assert running is not None
    assert running.image == NEW.image


def test_an_update_cannot_end_before_its_last_chunk_or_without_a_beginning() -> None:
    device = running_old()
    assert device.end() is Status.NOT_BEGUN
    assert device.begin(NEW) is Status.OK
    assert device.chunk(0, NEW.image[:64]) is Status.OK
    assert device.end() is Status.OUT_OF_PLACE


def test_firmware_on_trial_takes_no_update_before_it_is_confirmed() -> None:
    device = running_old()
    assert device.send(NEW) is Status.OK
    device.boot()
    assert device.begin(package(image(500), counter=9)) is Status.ON_TRIAL
    assert device.confirm() is Status.OK
    assert device.begin(package(image(500), counter=9)) is Status.OK


def test_a_staged_image_that_is_replaced_is_not_tried_half_written() -> None:
    device = running_old()
    assert device.send(NEW) is Status.OK
    assert device.begin(package(image(500), counter=9)) is Status.OK
    running = device.boot()
    assert running is not None
    assert (running.image, running.is_trial) == (OLD.image, False)


def test_confirming_twice_is_confirming_once() -> None:
    device = running_old()
    before = bytes(device.flash.memory)
    assert device.confirm() is Status.OK
    assert device.flash.memory == before


def test_another_image_begins_anew_and_the_same_one_goes_on() -> None:
    device = running_old()
    assert device.begin(NEW) is Status.OK
    for start in range(0, 640, 64):
        assert device.chunk(start, NEW.image[start : start + 64]) is Status.OK
    assert device.begin(NEW) is Status.OK
    assert device.next_offset == SECTOR_BYTES
    assert device.begin(package(image(500), counter=9)) is Status.OK
    assert device.next_offset == 0


@pytest.mark.parametrize("mark", [b"\x00\x00\x00\x00\x01\x00\x00\x00", bytes(8)], ids=["torn", "behind a gap"])
def test_marks_that_no_update_leaves_make_it_begin_anew(mark: bytes) -> None:
    device = running_old()
    target = slot_address(0)
    assert device.begin(NEW) is Status.OK
    for start in range(0, 640, 64):
        assert device.chunk(start, NEW.image[start : start + 64]) is Status.OK
    device.flash.memory[target + 256 + 2 * 8 : target + 256 + 3 * 8] = mark
    assert device.begin(NEW) is Status.OK
    assert device.next_offset == 0
