"""The device's whole path on one core: reading → ioMessage → hash chain → signature → committed journal."""

import itertools
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import coincurve

from agent.clock import CeilingFile, ChainReferences, ClockReading
from agent.journal import DirectoryDisk, Journal, JournalSettings
from agent.pack.routing import DEFAULT_MAX_READINGS, Route
from agent.pack.wrap import Group, Wrapped, Wrapper
from benchmarks.harness import Figure, cpu_seconds_per_call
from drivers.reading import Reading
from protocol.ethereum.signer import Signer

BATCH = 250
STREAMS = 25
SECRET = bytes(range(1, 33))
START_MS = 1_700_000_000_000
STREAM_ID = "0x7f3c9b1de0a54c2e8fb1d2a3c4e5f60718293a4b/plant/boiler"
PRIORITY = 4
LEAST_SHARES = {"one stream": 4.5, f"{STREAMS} streams": 2.5, "packs off": 0.75}  # of the rate of bare signatures
NOTES = {
    "one stream": f"{BATCH} readings per commit",
    f"{STREAMS} streams": f"{BATCH} readings per commit, {BATCH // STREAMS} of each stream",
    "packs off": f"{BATCH} readings per commit, each signed by itself",
}


def measure() -> Iterable[Figure]:
    with tempfile.TemporaryDirectory(prefix="bench-path-") as directory:
        candidates = {
            "one stream": _path(Path(directory, "one"), _routes(1)),
            f"{STREAMS} streams": _path(Path(directory, "many"), _routes(STREAMS)),
            "packs off": _path(Path(directory, "off"), _routes(1, max_readings=1)),
            "sign": _bare_signatures(),
        }
        seconds = cpu_seconds_per_call(candidates)
    per_reading_us = {name: seconds[name] / BATCH * 1e6 for name in seconds}
    for name, at_least in LEAST_SHARES.items():
        yield from _figures(name, per_reading_us[name], per_reading_us["sign"], at_least)


def _figures(name: str, path_us: float, sign_us: float, at_least: float) -> Iterable[Figure]:
    yield Figure(name=f"path, {name}: CPU per reading", value=path_us, unit="µs", note=NOTES[name])
    yield Figure(
        name=f"path, {name}: readings by bare signatures",
        value=sign_us / path_us,
        unit="×",
        at_least=at_least,
        note=f"coincurve signs alone in {sign_us:.1f} µs",
    )


def _routes(count: int, max_readings: int = DEFAULT_MAX_READINGS) -> list[Route]:
    return [
        Route(f"{STREAM_ID}-{at}", 0, "binary", PRIORITY, "", "none", max_readings=max_readings) for at in range(count)
    ]


def _path(directory: Path, routes: Sequence[Route]) -> Callable[[], object]:
    journal = Journal(DirectoryDisk(directory / "journal"), JournalSettings(), new_journal_id=1, now_ms=START_MS)
    references = ChainReferences(CeilingFile(directory / "ceiling"), None)
    wrapper = Wrapper(Signer(SECRET), references, max_payload_bytes=JournalSettings().max_payload_bytes)
    publisher = journal.cursor("publisher")
    clock_ms = itertools.count(START_MS, 1000)
    readings = _readings(START_MS)
    groups = [Group(route, readings[at :: len(routes)]) for at, route in enumerate(routes)]

    def commit_a_batch() -> None:
        now_ms = next(clock_ms)
        wrapped = Wrapped.nothing()
        wrapper.wrap(groups[:], _clock(now_ms), wrapped)
        for lane, entries, _, _ in wrapped.runs:
            positions = journal.append_many(lane, entries)
        journal.commit(now_ms)
        publisher.acknowledge(PRIORITY, positions[-1] + entries[-1].readings - 1)

    return commit_a_batch


def _readings(now_ms: int) -> list[Reading]:
    return [
        Reading("boiler-1", "temperature", 71.5 + at % 17 / 7, "Cel", taken_at_ms=now_ms + at) for at in range(BATCH)
    ]


def _clock(now_ms: int) -> ClockReading:
    return ClockReading(
        now_ms=now_ms, monotonic_ms=now_ms - START_MS, boot_id=bytes(16), is_synchronised=True, max_error_ms=1
    )


def _bare_signatures() -> Callable[[], object]:
    key, digest = coincurve.PrivateKey(SECRET), bytes(32)

    def sign_a_batch() -> None:
        for _ in range(BATCH):
            key.sign_recoverable(digest, hasher=None)

    return sign_a_batch
