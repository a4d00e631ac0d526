import pytest

from protocol import strict_cbor
from protocol.clock import ClockContext, ClockCorrection
from protocol.errors import Corrupt, Truncated, WireError

BOOT = bytes(range(16))
CONTEXT = ClockContext(boot_id=BOOT, monotonic_ms=5_000, is_synchronised=False)
CORRECTION = ClockCorrection(boot_id=BOOT, monotonic_ms=65_000, utc_ms=1_700_000_060_000, uncertainty_ms=12)


def test_round_trips() -> None:
    assert ClockContext.from_bytes(CONTEXT.to_bytes()) == CONTEXT
    assert ClockCorrection.from_bytes(CORRECTION.to_bytes()) == CORRECTION


def test_context_and_correction_together_give_the_true_time() -> None:
    assert CORRECTION.offset_ms == 1_700_000_060_000 - 65_000
    assert CORRECTION.true_time_ms(CONTEXT) == 1_700_000_000_000


def test_a_correction_says_nothing_about_another_start_of_the_machine() -> None:
    with pytest.raises(ValueError, match="says nothing"):
        CORRECTION.true_time_ms(ClockContext(boot_id=bytes(16), monotonic_ms=0, is_synchronised=False))


@pytest.mark.parametrize(("boot_id", "monotonic_ms"), [(b"short", 0), (BOOT, -1), (BOOT, 2**53)])
def test_a_moment_that_cannot_be_is_refused(boot_id: bytes, monotonic_ms: int) -> None:
    with pytest.raises(ValueError, match=r"boot_id|monotonic_ms"):
        ClockContext(boot_id=boot_id, monotonic_ms=monotonic_ms, is_synchronised=False)


@pytest.mark.parametrize(("utc_ms", "uncertainty_ms"), [(-1, 0), (0, -1), (2**53, 0)])
def test_a_time_that_cannot_be_is_refused(utc_ms: int, uncertainty_ms: int) -> None:
    with pytest.raises(ValueError, match=r"utc_ms|uncertainty_ms"):
        ClockCorrection(boot_id=BOOT, monotonic_ms=0, utc_ms=utc_ms, uncertainty_ms=uncertainty_ms)


def test_every_beginning_is_truncated_and_wrong_shapes_are_corrupt() -> None:
    for value in (CONTEXT, CORRECTION):
        data = value.to_bytes()
        for length in range(len(data)):
            with pytest.raises(Truncated):
                type(value).from_bytes(data[:length])
        with pytest.raises(Corrupt):
            type(value).from_bytes(data + b"\0")
    with pytest.raises(Corrupt, match="clock context: "):
        ClockContext.from_bytes(strict_cbor.encode({"boot": BOOT, "monotonic_ms": 1, "synchronised": 0}))


def test_one_does_not_pass_for_the_other() -> None:
    with pytest.raises(WireError):
        ClockContext.from_bytes(CORRECTION.to_bytes())
