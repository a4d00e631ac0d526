"""Receives the readings of one session in order; acknowledges them when received and again when durable. Pure."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from firmware_bridge.clock_mapping import ClockMapping
from firmware_bridge.events import LinkCounters, Measured
from firmware_bridge.received import Boot, ReceivedRecords, SampleName
from protocol.link import MAX_WINDOW, Ack, Record, SensorDescription

NUMBERS: Final = 256


class Moment(NamedTuple):
    """The present time by two clocks."""

    steady_ms: float  # never set
    utc_ms: int


class _Nak(NamedTuple):
    expected: int
    at_ms: float


class Reception:
    """The receiving end of one session. Numbers begin at 0 when the flow is opened."""

    def __init__(
        self,
        *,
        device_id: str,
        boot: Boot,
        records: ReceivedRecords,
        sensors: dict[int, SensorDescription],
        clock: ClockMapping,
        counters: LinkCounters,
    ) -> None:
        self.expected = 0
        self._device_id = device_id
        self._boot = boot
        self._received = records
        self._sensors = sensors
        self._clock = clock
        self._counters = counters
        self._has_news = True  # something is to be acknowledged
        self._has_gap = False
        self._last_nak: _Nak | None = None
        self._reported_committed = -1

    def accept(self, record: Record, seq: int, now: Moment) -> list[Measured]:
        """The new readings of a record. A record that is not accepted is sent again."""
        ahead = (seq - self.expected) % NUMBERS
        if ahead == 0 and self._received.is_full:
            return []
        self._has_news = True
        if ahead:
            self._has_gap |= ahead < MAX_WINDOW
            return []
        self.expected = (self.expected + 1) % NUMBERS
        return self._new_in(record, now)

    def note_damage(self) -> None:
        """A damaged frame may have been a reading."""
        self._has_gap = True

    def acknowledgement(self, now_ms: float, retry_ms: float, *, is_keepalive: bool = False) -> tuple[Ack, bool] | None:
        """The acknowledgement to send, and whether it is a NAK; None if there is nothing new."""
        committed_rseq = self._received.committed_rseq
        is_nak = self._has_gap and self._may_nak(now_ms, retry_ms)
        if not (self._has_news or is_nak or is_keepalive or committed_rseq != self._reported_committed):
            return None
        if is_nak:
            self._last_nak = _Nak(self.expected, now_ms)
            self._counters.naks += 1
        self._has_news = self._has_gap = False
        self._reported_committed = committed_rseq
        return Ack(committed_rseq=committed_rseq), is_nak

    def _may_nak(self, now_ms: float, retry_ms: float) -> bool:
        """Whether to send a NAK: once for each gap, and again when the response must have been lost."""
        last = self._last_nak
        return last is None or last.expected != self.expected or now_ms - last.at_ms >= retry_ms

    def _new_in(self, record: Record, now: Moment) -> list[Measured]:
        counters, missing_before = self._counters, self._received.missing
        empty = sum(sample.value is None for sample in record.samples)
        new = self._received.accept(record)
        counters.records += 1
        counters.missing_records += self._received.missing - missing_before
        counters.empty_samples += empty
        counters.duplicate_records += not new and empty < len(record.samples)
        measured = list(self._measured(record, new, now))
        counters.samples += len(measured)
        return measured

    def _measured(self, record: Record, new: list[int], now: Moment) -> Iterator[Measured]:
        utc_ms = now.utc_ms + round(self._clock.host_ms(record.uptime_ms) - now.steady_ms)
        taken_at_ms = max(0, min(utc_ms, now.utc_ms))
        first_token = SampleName(self._boot, record.rseq, 0).token
        for at in new:
            index, value = record.samples[at]
            sensor = self._sensors.get(index)
            if sensor is None or value is None:
                self._counters.note_foreign(f"record {record.rseq} names sensor {index}, which is not described")
                self._received.commit(record.rseq, {at})
                continue
            yield Measured(
                device_id=self._device_id,
                sensor=sensor,
                value=scaled(value, sensor.exponent),
                uptime_ms=record.uptime_ms,
                taken_at_ms=taken_at_ms,
                token=first_token + at,
            )


def scaled(value: int, exponent: int) -> int | float:
    """value × 10^exponent, exact where nothing is divided."""
    factor: int = 10 ** abs(exponent)
    return value * factor if exponent >= 0 else value / factor
