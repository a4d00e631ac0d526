"""The C library is judged by the same vectors as `protocol/link/`."""

import ctypes
from typing import Any

import pytest

from protocol.link import Frame, LinkDecoder
from tests.support.c_device import FULL, OK, CDevice, running
from tests.vectors.link import load

pytestmark = pytest.mark.needs("gcc", "gcc")

BOOT_ID = bytes.fromhex("b0b1b2b3b4b5b6b7")
PRIMITIVES = load("primitives")
CONVERSATIONS = load("conversations")


class Blake2sState(ctypes.Structure):
    _fields_ = [
        ("h", ctypes.c_uint32 * 8),
        ("count", ctypes.c_uint32),
        ("block", ctypes.c_uint8 * 64),
        ("used", ctypes.c_uint8),
        ("digest_bytes", ctypes.c_uint8),
    ]


@pytest.mark.parametrize(("text", "crc"), PRIMITIVES["crc32"] + PRIMITIVES["by_hand"]["crc32"])
def test_the_crc_is_that_of_zlib(c_library: ctypes.CDLL, text: str, crc: int) -> None:
    data = bytes.fromhex(text)
    assert c_library.hg_crc32(0, data, ctypes.c_size_t(len(data))) == crc


@pytest.mark.parametrize(("text", "stuffed"), PRIMITIVES["cobs"] + PRIMITIVES["by_hand"]["cobs"])
def test_stuffing_is_that_of_others(c_library: ctypes.CDLL, text: str, stuffed: str) -> None:
    data, expected = bytes.fromhex(text), bytes.fromhex(stuffed)
    out = ctypes.create_string_buffer(len(data) + len(data) // 254 + 1)
    size = c_library.hg_cobs_encode(out, data, ctypes.c_size_t(len(data)))
    assert out.raw[:size] == expected
    size = c_library.hg_cobs_decode(out, ctypes.c_size_t(size))
    assert out.raw[:size] == data


def test_stuffing_in_place_gives_the_same(c_library: ctypes.CDLL) -> None:
    for text, stuffed in PRIMITIVES["cobs"]:
        data, gap = bytes.fromhex(text), len(text) // 2 // 254 + 1
        buffer = ctypes.create_string_buffer(bytes(gap) + data, gap + len(data))
        size = c_library.hg_cobs_encode(buffer, ctypes.byref(buffer, gap), ctypes.c_size_t(len(data)))
        assert buffer.raw[:size].hex() == stuffed


@pytest.mark.parametrize(
    ("text", "size", "digest"),
    PRIMITIVES["blake2s"] + [[text, 32, digest] for text, digest in PRIMITIVES["by_hand"]["blake2s"]],
)
def test_keyed_blake2s_is_that_of_its_authors(c_library: ctypes.CDLL, text: str, size: int, digest: str) -> None:
    data, out, state = bytes.fromhex(text), ctypes.create_string_buffer(size), Blake2sState()
    c_library.hg_blake2s_init(ctypes.byref(state), bytes.fromhex(PRIMITIVES["key"]), size)
    for start in range(0, len(data), 50):
        piece = data[start : start + 50]
        c_library.hg_blake2s_add(ctypes.byref(state), piece, ctypes.c_size_t(len(piece)))
    c_library.hg_blake2s_end(ctypes.byref(state), out)
    assert out.raw.hex() == digest


@pytest.mark.parametrize("piece_bytes", [1, 7, 4096])
@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda conversation: conversation["name"])
def test_a_device_says_byte_for_byte_what_is_written(
    c_library: ctypes.CDLL, conversation: dict[str, Any], piece_bytes: int
) -> None:
    key = bytes.fromhex(conversation["key"]) if "key" in conversation else None
    steps = conversation["steps"]
    with running(c_library, boot_id=BOOT_ID, key=key) as device:
        said = device.poll()
        for number, step in enumerate(steps):
            if "device" in step:
                expected = bytes.fromhex(step["device"])
                assert said.startswith(expected), (number, _frames(said), _frames(expected))
                said = said[len(expected) :]
                continue
            assert not said, (number, _frames(said))
            _tell(device, step, piece_bytes)
            following = steps[number + 1] if number + 1 < len(steps) else {}
            said = b"" if "record" in following or "full" in following else device.poll()
        assert not said, _frames(said)


def _tell(device: CDevice, step: dict[str, Any], piece_bytes: int) -> None:
    if "now_ms" in step:
        device.set_now(step["now_ms"])
    elif "record" in step or "full" in step:
        samples = [(sensor, value) for sensor, value in step.get("record") or step["full"]]
        assert device.record(samples) == (OK if "record" in step else FULL)
    elif "log" in step:
        assert device.log(*step["log"]) == OK
    else:
        data = bytes.fromhex(step["host"])
        for start in range(0, len(data), piece_bytes):
            device.receive(data[start : start + piece_bytes])


def _frames(data: bytes) -> list[object]:
    return list(LinkDecoder().feed(data))


@pytest.mark.parametrize("case", load("bad"), ids=lambda case: case["name"])
def test_what_no_reader_may_take_changes_nothing(c_library: ctypes.CDLL, case: dict[str, str]) -> None:
    """After it the device still takes the next frame, and has nothing to say about this one."""
    opening = CONVERSATIONS[0]["steps"][:5]
    with running(c_library, boot_id=BOOT_ID) as device:
        for step in opening:
            if "host" in step:
                device.receive(bytes.fromhex(step["host"]))
        device.poll()
        device.receive(bytes.fromhex(case["wire"]))
        assert device.poll() == b""
        assert device.is_up()
        assert device.executed == 0
        device.receive(_time_request())
        (answer,) = _frames(device.poll())
        assert isinstance(answer, Frame)


def _time_request() -> bytes:
    return next(bytes.fromhex(case["wire"]) for case in load("frames") if case["name"] == "time request")
