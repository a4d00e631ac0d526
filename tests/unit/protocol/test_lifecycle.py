import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import WireError
from protocol.lifecycle import DeviceNotice, LifecycleNotice

START = LifecycleNotice(version="0.1.0", configuration=bytes(range(32)), reason="requested")
DOWN = DeviceNotice(device="boiler", before="up", after="down", lasted_ms=1234, reason="no reply; check the cable")


def test_notices_survive_their_bytes() -> None:
    assert LifecycleNotice.from_bytes(START.to_bytes()) == START
    assert DeviceNotice.from_bytes(DOWN.to_bytes()) == DOWN


@pytest.mark.parametrize("kind", [LifecycleNotice, DeviceNotice])
@given(data=st.binary(max_size=200))
def test_any_bytes_give_a_notice_or_a_wire_error(kind: type[LifecycleNotice | DeviceNotice], data: bytes) -> None:
    try:
        notice = kind.from_bytes(data)
    except WireError:
        return
    assert notice.to_bytes() == data


@pytest.mark.parametrize("notice", [START, DOWN])
def test_every_strict_prefix_and_every_addition_is_refused(notice: LifecycleNotice | DeviceNotice) -> None:
    data = notice.to_bytes()
    for wrong in [*(data[:end] for end in range(len(data))), data + b"\x00"]:
        with pytest.raises(WireError):
            type(notice).from_bytes(wrong)


def test_fields_beyond_their_limits_are_refused() -> None:
    with pytest.raises(ValueError, match="configuration of 3 bytes"):
        LifecycleNotice(version="1", configuration=b"abc", reason="")
    with pytest.raises(ValueError, match="reason of 1025 bytes"):
        LifecycleNotice(version="1", configuration=bytes(32), reason="x" * 1025)
    with pytest.raises(ValueError, match="lasted_ms -1"):
        DeviceNotice(device="d", before="up", after="down", lasted_ms=-1, reason="")
