from typing import Any

import pytest

from protocol import strict_cbor
from protocol.clock import ClockContext, ClockCorrection, ExcursionNotice
from protocol.errors import Corrupt, Truncated, WireError
from protocol.reference import Reference

BOOT = bytes(range(16))
CONTEXT = ClockContext(boot_id=BOOT, monotonic_ms=5_000, is_synchronised=False)
CORRECTION = ClockCorrection(boot_id=BOOT, monotonic_ms=65_000, utc_ms=1_700_000_060_000, uncertainty_ms=12)


def test_round_trips() -> None:
    assert ClockContext.from_bytes(CONTEXT.to_bytes()) == CONTEXT
    assert ClockCorrection.from_bytes(CORRECTION.to_bytes()) == CORRECTION


def test_context_and_correction_together_give_the_true_time() -> None:
    assert CORRECTION.offset_ms == 1_700_000_060_000 - 65_000
    assert CONTEXT.monotonic_ms + CORRECTION.offset_ms == 1_700_000_000_000


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


def excursion(**changes: Any) -> ExcursionNotice:
    fields: dict[str, Any] = {
        "now_ms": 5,
        "last": Reference(900, 2),
        "count": 3,
        "chains": (("0xab/plant#0/x", Reference(900, 2)), ("0xab/plant#0/y", Reference(800, 0))),
    }
    return ExcursionNotice(**{**fields, **changes})


def test_an_excursion_notice_reads_back() -> None:
    assert ExcursionNotice.from_bytes(excursion().to_bytes()) == excursion()


@pytest.mark.parametrize(
    "changes",
    [
        {"now_ms": -1},
        {"now_ms": 900},
        {"count": 1},
        {"chains": (("x" * 1025, Reference(1, 1)),)},
        {"chains": (("x", Reference(1, -1)),)},
        {"last": Reference(2**53, 0)},
        {"count": 40, "chains": (("x", Reference(1, 1)),) * 33},
    ],
)
def test_an_impossible_excursion_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"now_ms|chain|last timestamp_ms"):
        excursion(**changes)


def test_bytes_that_are_no_excursion_notice_are_corrupt() -> None:
    for data in (b"", b"\x00", excursion().to_bytes()[:-1], strict_cbor.encode({"now_ms": 1})):
        with pytest.raises(WireError):
            ExcursionNotice.from_bytes(data)
