"""A boat's recording, played by gpsd's own gpsfake: our readings against what gpsd makes of the same sentences."""

import asyncio
import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from drivers.nmea.driver import NmeaDecoder, build
from drivers.reading import Reading
from testbed.cable import PtyPort
from tests.support.driver_samples import nmea
from tests.support.patience import PATIENCE_S


def recording(epochs: int) -> bytes:
    lines = []
    for second in range(epochs):
        time, north, east = f"1235{second:02d}.00", f"48{7 + second / 100:07.4f}", f"011{31 + second / 50:07.4f}"
        lines.append(nmea(f"GPRMC,{time},A,{north},N,{east},E,{5 + second / 10:.1f},{84 + second:.1f},230325,,,A"))
        lines.append(nmea(f"GPGGA,{time},{north},N,{east},E,1,08,0.9,{545 + second:.1f},M,46.9,M,,"))
    return b"".join(lines)


def by_time(readings: list[Reading]) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for reading in readings:
        found.setdefault(reading.taken_at_ms, {})[reading.quantity] = reading.value
    return found


def agreements(reports: list[dict[str, Any]], ours: dict[int, dict[str, Any]]) -> int:
    """How many reports of gpsd say the same as our readings of that time. None may say otherwise."""
    names = {"lat": "latitude", "lon": "longitude", "altMSL": "altitude", "speed": "speed", "track": "course"}
    count = 0
    for report in reports:
        at_ms = round(datetime.fromisoformat(report["time"]).replace(tzinfo=UTC).timestamp() * 1000)
        for theirs, name in names.items():
            if theirs in report:
                assert ours[at_ms][name] == pytest.approx(report[theirs], abs=1e-3 if theirs == "speed" else 1e-7)
                count += 1
    return count


@pytest.mark.needs("gpsdecode", "gpsd-clients")
def test_gpsdecode_makes_the_same_of_a_recording() -> None:
    data = recording(20)
    done = subprocess.run(["gpsdecode", "-j"], input=data, capture_output=True, check=True, timeout=PATIENCE_S)
    reports = [report for line in done.stdout.splitlines() if (report := json.loads(line))["class"] == "TPV"]
    events = NmeaDecoder("gps").feed(data, 0)
    readings = [event for event in events if isinstance(event, Reading)]
    assert len(readings) == len(events)
    assert agreements(reports, by_time(readings)) >= 15 * 5


@pytest.mark.slow
@pytest.mark.needs("gpsd", "gpsd")
@pytest.mark.needs("gpsfake", "gpsd-clients")
def test_what_gpsfake_plays_through_a_port_is_read_as_gpsd_reads_it(tmp_path: Path) -> None:
    """gpsd's own reports stand between the sentences, and are noise to us."""
    (tmp_path / "boat.nmea").write_bytes(recording(8))
    command = ["gpsfake", "-1", "-q", "-p", "-c", "0.01", "boat.nmea"]
    played = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, timeout=PATIENCE_S).stdout
    reports = [json.loads(line) for line in played.splitlines() if line.startswith(b'{"class":"TPV"')]

    async def read() -> list[Reading]:
        cable = PtyPort(tmp_path / "port")
        driver = build("gps", {"port": str(cable.link), "interval_s": 0, "silence_s": 0.5})
        await driver.open()
        readings: list[Reading] = []
        for line in played.splitlines(keepends=True):
            cable.send(line)
            if line.startswith(b"$"):
                readings += await driver.read()
        assert driver.time_hint is not None
        await driver.close()
        cable.unplug()
        return readings

    assert agreements(reports, by_time(asyncio.run(read()))) >= 20
