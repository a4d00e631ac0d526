"""The device's whole path on one core: reading → ioMessage → hash chain → signature → committed journal."""

import itertools
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import coincurve

from agent.clock import CeilingFile, ChainReferences, ClockReading
from agent.journal import DirectoryDisk, Journal, JournalSettings
from agent.pack.routing import Route
from agent.pack.wrap import Group, Wrapped, Wrapper
from benchmarks.harness import Figure, cpu_seconds_per_call
from drivers.reading import Reading
from protocol.ethereum.signer import Signer

BATCH = 250
SECRET = bytes(range(1, 33))
START_MS = 1_700_000_000_000
ROUTE = Route("0x7f3c9b1de0a54c2e8fb1d2a3c4e5f60718293a4b/plant/boiler", 0, "binary", 4, "", "none")
LEAST_SHARE = 0.75  # of the rate of bare signatures


def measure() -> Iterable[Figure]:
    with tempfile.TemporaryDirectory(prefix="bench-path-") as directory:
        seconds = cpu_seconds_per_call({"path": _path(Path(directory)), "sign": _bare_signatures()})
    path_us, sign_us = (seconds[name] / BATCH * 1e6 for name in ("path", "sign"))
    yield Figure(name="path: CPU per message", value=path_us, unit="µs", note=f"{BATCH} messages per commit")
    yield Figure(
        name="path: share of the bare sign rate",
        value=sign_us / path_us,
        unit="",
        at_least=LEAST_SHARE,
        note=f"coincurve signs alone in {sign_us:.1f} µs",
    )


def _path(directory: Path) -> Callable[[], object]:
    journal = Journal(DirectoryDisk(directory / "journal"), JournalSettings(), new_journal_id=1, now_ms=START_MS)
    references = ChainReferences(CeilingFile(directory / "ceiling"), None)
    wrapper = Wrapper(Signer(SECRET), references, max_payload_bytes=JournalSettings().max_payload_bytes)
    publisher = journal.cursor("publisher")
    clock_ms = itertools.count(START_MS, 1000)
    readings = _readings(START_MS)

    def commit_a_batch() -> None:
        now_ms = next(clock_ms)
        wrapped = Wrapped.nothing()
        wrapper.wrap([Group(ROUTE, readings)], _clock(now_ms), wrapped)
        for lane, entries, _, _ in wrapped.runs:
            positions = journal.append_many(lane, entries)
        journal.commit(now_ms)
        publisher.acknowledge(ROUTE.priority, positions[-1])

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
