"""Sentences, one by one."""

from datetime import date, timedelta

import pytest

from drivers.nmea.sentences import checksum, parse_sentence, read_sentence
from tests.support.driver_samples import nmea


def test_the_well_known_example_is_read() -> None:
    kind, fields = parse_sentence(b"$GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,230394,003.1,W*6A\r\n")
    fix = read_sentence(kind, fields)
    assert fix is not None
    assert fix.position == pytest.approx((48.1173, 11.516667), abs=1e-6)
    assert fix.measured == [("speed", 11.523556, "m/s"), ("course", 84.4, "deg")]
    assert (fix.day, fix.time_of_day) == (date(1994, 3, 23), timedelta(hours=12, minutes=35, seconds=19))


@pytest.mark.parametrize(
    ("body", "measured"),
    [
        (
            "GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,",
            [("fix_quality", 1, ""), ("satellites", 8, ""), ("hdop", 0.9, ""), ("altitude", 545.4, "m")],
        ),
        ("GPGGA,,,,,,0,00,99.99,,,,,,", [("fix_quality", 0, ""), ("satellites", 0, "")]),
        ("GPRMC,123519,V,,,,,,,230325,,", []),
        ("SDDPT,4.1,0.5", [("depth", 4.1, "m")]),
        ("SDDBT,13.5,f,4.1,M,2.2,F", [("depth", 4.1, "m")]),
        ("YXMTW,17.3,C", [("water_temperature", 17.3, "Cel")]),
        ("HEHDT,271.5,T", [("heading_true", 271.5, "deg")]),
        ("HCHDG,101.1,,,7.1,W", [("heading_magnetic", 101.1, "deg")]),
        ("WIMWV,214.8,R,10.0,N,A", [("wind_angle_apparent", 214.8, "deg"), ("wind_speed_apparent", 5.144444, "m/s")]),
        ("WIMWV,214.8,T,36,K,A", [("wind_angle_true", 214.8, "deg"), ("wind_speed_true", 10.0, "m/s")]),
        ("WIMWV,214.8,R,10.0,S,A", [("wind_angle_apparent", 214.8, "deg"), ("wind_speed_apparent", 4.4704, "m/s")]),
        ("WIMWV,214.8,R,10.0,N,V", []),
        ("VWVHW,,T,,M,5.0,N,9.3,K", [("speed_through_water", 2.572222, "m/s")]),
    ],
)
def test_each_kind_gives_its_quantities(body: str, measured: list[tuple[str, float, str]]) -> None:
    fix = read_sentence(*parse_sentence(nmea(body)))
    assert fix is not None
    assert fix.measured == measured


def test_south_and_west_are_negative() -> None:
    fix = read_sentence(*parse_sentence(nmea("GPGLL,3356.000,S,15112.500,W,120000,A,A")))
    assert fix is not None
    assert fix.position == pytest.approx((-33.933333, -151.208333), abs=1e-6)


def test_kinds_that_are_not_read_here_are_no_fault() -> None:
    assert read_sentence(*parse_sentence(nmea("GPGSV,3,1,11,03,03,111,00"))) is None
    assert read_sentence(*parse_sentence(nmea("PUBX,00,1"))) is None


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"$GPGLL,,,,,,*+5", "wrong checksum"),
        (b"GPRMC,1*00", "not a sentence"),
        (b"$GPRMC,1", "no checksum"),
        (b"$GPRMC,1*0", "no checksum"),
        (b"$GPRMC,123519,A*00", "wrong checksum"),
        (b"$GPRMC*zz", "wrong checksum"),
        (b"$" + b"x" * 200 + b"*00", "not a sentence"),
        (nmea("GPRMC,256199,A,,,,,,,,,"), "not a time of day"),
        (nmea("GPGLL,9999.000,N,00000.000,E,120000,A"), "not a position"),
        (nmea("GPGLL,4860.000,N,00000.000,E,120000,A"), "not a position"),
        (nmea("GPGLL,4800.000,X,00000.000,E,120000,A"), "not a position"),
        (nmea("SDDPT,inf"), "field 1"),
        (nmea("GPGGA,,,,,,x"), "invalid literal"),
    ],
)
def test_a_sentence_that_is_wrong_is_refused(line: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read_sentence(*parse_sentence(line))


def test_the_checksum_is_the_xor_of_all_bytes() -> None:
    assert checksum(b"") == 0
    assert checksum(b"\x0f\xf0\x01") == 0xFE


def test_a_wind_speed_of_unknown_unit_is_not_guessed() -> None:
    with pytest.raises(ValueError, match="'X' is not a unit of wind speed"):
        read_sentence(*parse_sentence(nmea("WIMWV,214.8,R,10.0,X,A")))
