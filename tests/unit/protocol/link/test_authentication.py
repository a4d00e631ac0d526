from dataclasses import replace

import pytest

from protocol.errors import Corrupt
from protocol.link import Ack, Authenticator, Direction, Frame, derive_session_key, frame_of

KEY = bytes(range(32))
NONCE, BOOT_ID = b"hostnonc", b"bootboot"


@pytest.fixture
def host() -> Authenticator:
    return Authenticator(KEY, sends=Direction.TO_DEVICE)


@pytest.fixture
def device() -> Authenticator:
    return Authenticator(KEY, sends=Direction.TO_HOST)


def _ack(rseq: int = 0) -> Frame:
    return frame_of(Ack(committed_rseq=rseq), session=7)


def test_the_destination_accepts_what_was_proved_in_order(host: Authenticator, device: Authenticator) -> None:
    for number in range(3):
        device.check(host.prove(_ack(number)))


def test_frames_may_be_lost_but_not_replayed_or_turned_round(host: Authenticator, device: Authenticator) -> None:
    first, second, third = (host.prove(_ack(number)) for number in range(3))
    device.check(first)
    device.check(third)
    for replayed in (first, second, third):
        with pytest.raises(Corrupt, match="replay"):
            device.check(replayed)


def test_a_frame_sent_back_to_its_maker_proves_nothing(host: Authenticator) -> None:
    with pytest.raises(Corrupt, match="direction"):
        host.check(host.prove(_ack()))


@pytest.mark.parametrize("change", [{"session": 8}, {"seq": 1}, {"is_nak": True}, {"payload": b"\x81\x01"}])
def test_no_part_of_a_frame_can_be_changed(
    host: Authenticator, device: Authenticator, change: dict[str, int | bool | bytes]
) -> None:
    proved = host.prove(_ack())
    with pytest.raises(Corrupt, match="another key"):
        device.check(replace(proved, **change))  # type: ignore[arg-type]


def test_a_counter_cannot_be_changed(host: Authenticator, device: Authenticator) -> None:
    proved = host.prove(_ack())
    assert proved.proof is not None
    with pytest.raises(Corrupt, match="another key"):
        device.check(replace(proved, proof=proved.proof._replace(counter=1)))


def test_a_forgery_does_not_use_up_a_counter(host: Authenticator, device: Authenticator) -> None:
    proved = host.prove(_ack())
    assert proved.proof is not None
    forged = replace(proved, proof=proved.proof._replace(counter=2**32 - 2))
    with pytest.raises(Corrupt):
        device.check(forged)
    device.check(proved)


def test_a_frame_without_proof_is_refused(device: Authenticator) -> None:
    with pytest.raises(Corrupt, match="not authenticated"):
        device.check(_ack())


def test_a_session_ends_before_its_counters_do(host: Authenticator) -> None:
    host._next_sent = 2**32 - 2
    host.prove(_ack())
    assert host.is_exhausted
    with pytest.raises(ValueError, match="begin a new one"):
        host.prove(_ack())


def test_every_part_of_the_handshake_changes_the_session_key() -> None:
    keys = {
        derive_session_key(key, host_nonce=nonce, boot_id=boot_id, syncs=syncs)
        for key in (KEY, bytes(32))
        for nonce in (NONCE, bytes(8))
        for boot_id in (BOOT_ID, bytes(8))
        for syncs in (0, 1)
    }
    assert len(keys) == 16


@pytest.mark.parametrize(("key", "nonce", "boot_id"), [(b"", NONCE, BOOT_ID), (KEY, b"", BOOT_ID), (KEY, NONCE, b"")])
def test_a_part_of_the_wrong_length_is_refused_without_showing_it(key: bytes, nonce: bytes, boot_id: bytes) -> None:
    with pytest.raises(ValueError, match=r"of 0 bytes, not (8|32)"):
        derive_session_key(key, host_nonce=nonce, boot_id=boot_id, syncs=0)


def test_the_key_is_not_shown(host: Authenticator) -> None:
    assert KEY.hex() not in repr(host)
    assert str(KEY) not in repr(host)
