"""Streams of sentences: one position per epoch, and the receiver's own clock."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from drivers.framing import Damaged
from drivers.nmea.driver import NmeaDecoder, TimeHint
from drivers.nmea.sentences import KINDS
from drivers.reading import Reading
from tests.support.driver_samples import nmea

NOW_MS = 1_742_733_300_000
RMC = nmea("GPRMC,123519.25,A,4807.038,N,01131.000,E,022.4,084.4,230325,,")
GGA = nmea("GPGGA,123519.25,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,")
RMC_MS = round(datetime(2025, 3, 23, 12, 35, 19, 250_000, UTC).timestamp() * 1000)


def readings(decoder: NmeaDecoder, *lines: bytes, now_ms: int = NOW_MS) -> list[Reading]:
    events = [event for line in lines for event in decoder.feed(line, now_ms)]
    return [event for event in events if isinstance(event, Reading)]


def test_position_comes_once_per_epoch_and_carries_the_receivers_time() -> None:
    found = readings(NmeaDecoder("gps"), RMC, GGA)
    assert [reading.quantity for reading in found].count("latitude") == 1
    assert {reading.taken_at_ms for reading in found} == {RMC_MS}
    assert {reading.quantity for reading in found} == {
        "latitude", "longitude", "speed", "course", "clock_offset", "fix_quality", "satellites", "hdop", "altitude",
    }  # fmt: skip


def test_the_time_hint_says_how_far_the_gateways_clock_is_off() -> None:
    decoder = NmeaDecoder("gps")
    found = readings(decoder, RMC, now_ms=RMC_MS - 90_000)
    assert decoder.time_hint == TimeHint(gnss_ms=RMC_MS, gateway_ms=RMC_MS - 90_000)
    assert decoder.time_hint.offset_ms == 90_000
    assert next(reading.value for reading in found if reading.quantity == "clock_offset") == 90.0


def test_the_gateways_clock_can_be_preferred() -> None:
    found = readings(NmeaDecoder("gps", clock="gateway"), RMC)
    assert {reading.taken_at_ms for reading in found} == {NOW_MS}


def test_a_receiver_that_lost_count_of_weeks_is_not_believed() -> None:
    decoder = NmeaDecoder("gps")
    old = nmea("GPRMC,123519.25,A,4807.038,N,01131.000,E,022.4,084.4,070805,,")
    assert {reading.taken_at_ms for reading in readings(decoder, old)} == {NOW_MS}
    assert decoder.time_hint is None


def test_a_day_of_too_many_digits_is_damage() -> None:
    [event] = NmeaDecoder("gps").feed(nmea(f"GPZDA,120000,{10**20},12,2025,00,00"), NOW_MS)
    assert isinstance(event, Damaged)


def test_a_receiver_from_the_end_of_time_is_not_believed() -> None:
    """And its day has no next one, so that not even midnight can be reckoned."""
    decoder = NmeaDecoder("gps")
    zda, after = nmea("GPZDA,235960.5,31,12,9999,00,00"), nmea("GPGGA,000001,4807.038,N,01131.000,E,1,08,0.9,5,M,,M,,")
    assert {reading.taken_at_ms for reading in readings(decoder, zda, after)} == {NOW_MS}


def test_a_sentence_without_date_after_midnight_belongs_to_the_new_day() -> None:
    decoder = NmeaDecoder("gps")
    before = nmea("GPRMC,235959.00,A,4807.038,N,01131.000,E,022.4,084.4,230325,,")
    after = nmea("GPGGA,000000.00,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,")
    readings(decoder, before)
    (taken,) = {reading.taken_at_ms for reading in readings(decoder, after)}
    assert taken == datetime(2025, 3, 24, tzinfo=UTC).timestamp() * 1000


def test_each_quantity_comes_at_most_once_per_interval() -> None:
    decoder = NmeaDecoder("gps", interval_s=10)
    counts = []
    for second in range(25):
        line = nmea(f"GPGGA,1235{second:02d}.00,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,")
        counts.append(len(readings(decoder, line, now_ms=NOW_MS + second * 1000)))
    assert [second for second, count in enumerate(counts) if count] == [0, 10, 20]
    assert set(counts) == {0, 6}


def test_noise_between_sentences_costs_only_itself() -> None:
    events = NmeaDecoder("gps").feed(b"\xff\xfe$GPR" + RMC + b"$GPGGA,bro\n\r\n" + GGA, NOW_MS)
    assert sum(isinstance(event, Damaged) for event in events) == 2
    assert any(isinstance(event, Reading) and event.quantity == "satellites" for event in events)


bodies = st.builds(
    lambda kind, fields: nmea(",".join(["GP" + kind, *fields])),
    st.sampled_from(sorted(KINDS)),
    st.lists(st.text("0123456789.-NSEWAVTRKM", max_size=9), max_size=14),
)


@given(st.lists(bodies | st.binary(max_size=80), max_size=8).map(b"".join))
def test_any_sentences_give_readings_or_damage(data: bytes) -> None:
    for event in NmeaDecoder("gps").feed(data + b"\n", NOW_MS):
        assert isinstance(event, Reading | Damaged)
