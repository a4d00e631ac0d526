"""When a correction is due."""

from agent.clock.reading import ClockReading
from protocol.clock import ClockCorrection

STEP_MS = 100  # a synchronised clock that is set by this much or more has told a wrong time before


class SynchronisationWatch:
    """Show it the clocks every few seconds; it answers with a correction when there is one to publish.

    There is one whenever the clock becomes synchronised, and one more if it is set while it is. A new process knows
    nothing of what went before it within the same start of the machine, so it always gives one: a correction too many
    costs a message, one too few leaves readings without their time.
    """

    def __init__(self) -> None:
        self._told: ClockCorrection | None = None

    def observe(self, reading: ClockReading) -> ClockCorrection | None:
        if not reading.is_synchronised:
            self._told = None
            return None
        correction = ClockCorrection(
            boot_id=reading.boot_id,
            monotonic_ms=reading.monotonic_ms,
            utc_ms=max(0, reading.now_ms),
            uncertainty_ms=reading.max_error_ms,
        )
        if self._told is not None and abs(correction.offset_ms - self._told.offset_ms) < STEP_MS:
            return None
        self._told = correction
        return correction
