import pytest

from agent.clock import ClockReading, SynchronisationWatch, SystemClock, read_kernel_clock
from agent.clock.system import judge
from protocol.clock import ClockContext, ClockCorrection
from protocol.reference import Reference

BOOT = bytes(range(16))
START_MS = 1_700_000_000_000  # the true time at which the machine started


def reading(*, at_ms: int, now_ms: int | None = None, is_synchronised: bool = True) -> ClockReading:
    return ClockReading(
        now_ms=START_MS + at_ms if now_ms is None else now_ms,
        monotonic_ms=at_ms,
        boot_id=BOOT,
        is_synchronised=is_synchronised,
        max_error_ms=25,
    )


def test_a_correction_comes_once_when_the_clock_becomes_right() -> None:
    watch = SynchronisationWatch()
    assert watch.observe(reading(at_ms=1_000, now_ms=1_000, is_synchronised=False)) is None
    correction = watch.observe(reading(at_ms=60_000))
    assert correction == ClockCorrection(boot_id=BOOT, monotonic_ms=60_000, utc_ms=START_MS + 60_000, uncertainty_ms=25)
    assert watch.observe(reading(at_ms=61_000)) is None


def test_the_correction_gives_the_true_time_of_what_was_made_before_it() -> None:
    early = reading(at_ms=1_000, now_ms=17, is_synchronised=False)
    context = early.context_for(Reference(17, 0))
    correction = SynchronisationWatch().observe(reading(at_ms=60_000))
    assert context is not None
    assert correction is not None
    assert context.monotonic_ms + correction.offset_ms == START_MS + 1_000


def test_a_process_that_starts_on_a_right_clock_gives_one_too() -> None:
    assert SynchronisationWatch().observe(reading(at_ms=5)) is not None


def test_a_clock_that_lost_its_time_and_found_it_again_gives_another() -> None:
    watch = SynchronisationWatch()
    watch.observe(reading(at_ms=1_000))
    assert watch.observe(reading(at_ms=2_000, is_synchronised=False)) is None
    assert watch.observe(reading(at_ms=3_000)) is not None


@pytest.mark.parametrize(("step_ms", "is_reported"), [(99, False), (-99, False), (100, True), (-3_600_000, True)])
def test_a_right_clock_that_is_set_gives_another_and_one_that_drifts_does_not(step_ms: int, is_reported: bool) -> None:
    watch = SynchronisationWatch()
    watch.observe(reading(at_ms=1_000))
    assert (watch.observe(reading(at_ms=2_000, now_ms=START_MS + 2_000 + step_ms)) is not None) == is_reported


def test_a_message_carries_a_context_only_if_its_timestamp_is_not_to_be_trusted() -> None:
    right = reading(at_ms=1_000)
    assert right.context_for(Reference(right.now_ms, 0)) is None
    assert right.context_for(Reference(right.now_ms + 1_000, 3)) is None
    held_ahead = right.context_for(Reference(right.now_ms + 1_001, 0))
    assert held_ahead == ClockContext(boot_id=BOOT, monotonic_ms=1_000, is_synchronised=True)
    wrong = reading(at_ms=1_000, now_ms=4, is_synchronised=False)
    assert wrong.context_for(Reference(4, 0)) == ClockContext(boot_id=BOOT, monotonic_ms=1_000, is_synchronised=False)


def test_the_kernels_error_estimate_tells_whether_its_clock_is_right() -> None:
    assert judge(1_500).is_synchronised
    assert judge(1_500).max_error_ms == 2
    assert not judge(16_000_000).is_synchronised


def test_the_kernel_answers_without_privileges() -> None:
    assert read_kernel_clock().max_error_ms >= 0


def test_the_system_clock_reads_everything_and_its_counter_goes_forward() -> None:
    clock = SystemClock()
    first, second = clock.read(), clock.read()
    assert first.boot_id == second.boot_id
    assert len(first.boot_id) == 16
    assert 0 < first.monotonic_ms <= second.monotonic_ms
    assert first.now_ms > 0


def test_a_kernel_that_may_not_be_asked_counts_as_not_synchronised(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden() -> None:
        raise PermissionError(1, "Operation not permitted", "adjtimex")

    monkeypatch.setattr("agent.clock.system.read_kernel_clock", forbidden)
    clock = SystemClock()
    assert not clock.read().is_synchronised
