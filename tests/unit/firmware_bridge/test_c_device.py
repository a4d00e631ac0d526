"""What an application sees of the C library, and what a slow line does to it."""

import ctypes
from collections.abc import Iterator

import pytest

from protocol.link import Ack, Frame, Hello, LinkDecoder, LogLine, Record, Sync, TimeRequest, frame_of, message_in
from tests.support.c_device import BAD_ARGUMENT, DOWN, FULL, OK, CDevice, running

pytestmark = pytest.mark.needs("gcc", "gcc")

RETRY_MS = 200
AMPLE_BYTES = 10_000


@pytest.fixture
def device(c_library: ctypes.CDLL) -> Iterator[CDevice]:
    with running(c_library, boot_id=b"one boot") as found:
        yield found


@pytest.fixture
def open_device(device: CDevice) -> CDevice:
    device.receive(frame_of(Sync(host_nonce=bytes(8), retry_ms=RETRY_MS), session=7).to_bytes())
    device.receive(acknowledge(0))
    device.poll()
    return device


def acknowledge(expected: int, committed: int = 0) -> bytes:
    return frame_of(Ack(committed_rseq=committed), session=7, seq=expected).to_bytes()


def messages_in(data: bytes) -> list[object]:
    return [message_in(event) for event in LinkDecoder().feed(data) if isinstance(event, Frame)]


def numbers_in(data: bytes) -> list[int]:
    return [event.seq for event in LinkDecoder().feed(data) if isinstance(event, Frame)]


def test_a_device_calls_as_soon_as_it_is_polled(device: CDevice) -> None:
    (call,) = messages_in(device.poll())
    assert isinstance(call, Hello)
    assert call.host_nonce == b""


def test_a_link_is_up_only_after_the_gateways_first_acknowledgement(device: CDevice) -> None:
    device.receive(frame_of(Sync(host_nonce=bytes(8), retry_ms=RETRY_MS), session=7).to_bytes())
    assert not device.is_up()
    device.receive(acknowledge(0))
    assert device.is_up()


def test_a_record_needs_one_to_sixty_four_samples(device: CDevice) -> None:
    assert device.record([]) == BAD_ARGUMENT
    assert device.record([(0, 1)] * 65) == BAD_ARGUMENT
    assert device.record([(0, 1)] * 64) == OK


def test_a_record_that_no_frame_can_carry_is_counted_as_dropped(open_device: CDevice) -> None:
    assert open_device.record([(0, 100_000)] * 64) == FULL
    assert open_device.record([(0, 1)]) == OK
    (record,) = messages_in(open_device.poll())
    assert isinstance(record, Record)
    assert record.rseq == 1


def test_a_line_for_the_log_is_sent_now_or_counted(open_device: CDevice, device: CDevice) -> None:
    assert open_device.log(1, "first") == OK
    open_device.set_room(5)
    assert open_device.log(1, "cut off by the line") == OK
    assert open_device.log(1, "no room") == FULL
    open_device.set_room(AMPLE_BYTES)
    said = open_device.poll()
    assert open_device.log(1, "x" + "é" * 300) == OK
    lines = [line for line in messages_in(said + open_device.poll()) if isinstance(line, LogLine)]
    assert [(line.number, line.text) for line in lines] == [
        (0, "first"),
        (1, "cut off by the line"),
        (3, "x" + "é" * 59),  # cut at 120 bytes, but not within a character
    ]


def test_there_is_no_log_without_a_session(device: CDevice) -> None:
    assert device.log(1, "without a host") == DOWN


def test_a_device_is_idle_once_its_last_byte_has_left(open_device: CDevice) -> None:
    open_device.set_room(3)
    open_device.receive(frame_of(TimeRequest(token=1), session=7).to_bytes())
    assert not open_device.is_idle()
    said = open_device.poll()
    assert not open_device.is_idle()
    open_device.set_room(AMPLE_BYTES)
    said += open_device.poll()
    assert open_device.is_idle()
    assert len(messages_in(said)) == 1


def test_an_acknowledgement_that_overtakes_a_repeat_spares_it(open_device: CDevice) -> None:
    """The line was so slow that the device began to repeat what the gateway had long received."""
    for number in range(6):
        open_device.record([(0, number)])
    assert numbers_in(open_device.poll()) == [0, 1, 2, 3]
    open_device.set_room(1)
    open_device.set_now(RETRY_MS)
    begun = open_device.poll()
    open_device.receive(acknowledge(4))
    open_device.set_room(AMPLE_BYTES)
    assert numbers_in(begun + open_device.poll()) == [0, 4, 5]


def test_noise_between_two_frames_costs_neither(open_device: CDevice) -> None:
    request = frame_of(TimeRequest(token=1), session=7).to_bytes()
    open_device.receive(request + b"\x17\x42" * 2000 + request)
    assert len(messages_in(open_device.poll())) == 1
    open_device.receive(request)
    assert len(messages_in(open_device.poll())) == 1
