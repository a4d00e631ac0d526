"""The ingest against bare coincurve recover on the same cores: decoding, the whole run, a second core, and history.

Everything is counted in CPU seconds of the driver, the JVM and the Python workers together, so that other work on the
machine does not count. A ratio of 0.5 says: half of the time is the signature check that no ingest can do without.
"""

import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import coincurve
from pyspark.sql import SparkSession

from benchmarks.harness import Figure
from ingest.archive_rows import DecodeSettings, decode_archive
from ingest.decode import decode_archives
from ingest.job import FILES, JobSettings, run_job
from ingest.progress import Progress
from ingest.session import open_session
from protocol.archive import open_archive
from protocol.ethereum.hashing import eip191_digest
from protocol.streamr import parse_stream_message
from protocol.streamr.signing import signed_payload
from testbed.corpus import Device
from testbed.corpus_bulk import BulkChain, write_bulk_archive

ARCHIVES = 40
RECORDS = 5_000  # per archive
CHAINS = 10
ROUNDS = 2
START_MS = 1_790_000_000_000
DAY_MS = 86_400_000
HISTORIES_DAYS = (1, 10, 100)
DAILY_RECORDS = 1_000


def measure() -> Iterator[Figure]:
    folder = Path(tempfile.mkdtemp(prefix="headgate-bench-"))
    try:
        landing = folder / "landing"
        landing.mkdir()
        _write_corpus(landing)
        with _session(2) as spark:
            yield from _measure_run(spark, folder, landing)
            yield from _measure_history(spark, folder)
        yield from _measure_one_core(folder, landing)
    finally:
        shutil.rmtree(folder)


def _write_corpus(landing: Path) -> None:
    device = Device(1)
    chains = [BulkChain(device, f"sensor-{number}") for number in range(CHAINS)]
    span_ms = RECORDS // CHAINS * 1000
    for number in range(ARCHIVES):
        write_bulk_archive(landing, chains, records=RECORDS, start_ms=START_MS + number * span_ms)


@contextmanager
def _session(cores: int) -> Iterator[SparkSession]:
    options = {
        "spark.driver.memory": "2g",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    spark = open_session(f"local[{cores}]", options)
    try:
        yield spark
    finally:
        spark.stop()


def _measure_run(spark: SparkSession, folder: Path, landing: Path) -> Iterator[Figure]:
    core, decode, run, cold = [], [], [], 0.0
    for number in range(ROUNDS + 1):
        bare_s = _recover_s(next(landing.iterdir()))
        core_s = _core_s(next(landing.iterdir()))
        decode_s = _cpu_s(partial(_decode, spark, landing, folder / "decoded")) / (ARCHIVES * RECORDS)
        run_s = _cpu_s(partial(_run, spark, landing, folder / f"tables-{number}")) / (ARCHIVES * RECORDS)
        if number == 0:
            cold = bare_s / run_s
            continue
        core.append(bare_s / core_s)
        decode.append(bare_s / decode_s)
        run.append(bare_s / run_s)
    yield Figure(name="ingest core: decode and verify in Python, × bare recover", value=_median(core), unit="×")
    yield Figure(
        name="ingest decode and verify in Spark, × bare recover", value=_median(decode), unit="×", at_least=0.85
    )
    yield Figure(name="ingest whole run, all tables, warm, × bare recover", value=_median(run), unit="×", at_least=0.5)
    yield Figure(name="ingest whole run, all tables, cold, × bare recover", value=cold, unit="×", note="JVM not warm")


def _measure_one_core(folder: Path, landing: Path) -> Iterator[Figure]:
    """By the clock on the wall, since that is what a second core is for."""
    took = {}
    for cores in (1, 2):
        with _session(cores) as spark:
            _decode(spark, landing, folder / "decoded")
            start_s = time.monotonic()
            _run(spark, landing, folder / f"tables-on-{cores}")
            took[cores] = time.monotonic() - start_s
    rate = ARCHIVES * RECORDS / took[2]
    yield Figure(
        name="ingest speed-up from one core to two", value=took[1] / took[2], unit="×", note=f"{rate:.0f} records/s"
    )


def _measure_history(spark: SparkSession, folder: Path) -> Iterator[Figure]:
    """What one more day costs after 1, 10 and 100 days, each the median of a few days."""
    device = Device(2)
    chains = [BulkChain(device, "sensor")]
    landing, tables = folder / "days", folder / "history"
    landing.mkdir()
    cost_s = {}
    day = 0
    for days in HISTORIES_DAYS:
        while day < days:
            batch = min(10, days - day)
            for _ in range(batch):
                _write_day(landing, chains, day)
                day += 1
            _run(spark, landing, tables)
        costs = []
        for _ in range(3):
            _write_day(landing, chains, day)
            day += 1
            costs.append(_cpu_s(lambda: _run(spark, landing, tables)))
        cost_s[days] = _median(costs)
    for days in HISTORIES_DAYS[1:]:
        yield Figure(
            name=f"ingest of one day after {days} days, × after one",
            value=cost_s[days] / cost_s[1],
            unit="×",
            at_most=1.2,
            note=f"{cost_s[days]:.2f} CPU s",
        )


def _write_day(landing: Path, chains: list[BulkChain], day: int) -> None:
    step_ms = DAY_MS // DAILY_RECORDS
    write_bulk_archive(landing, chains, records=DAILY_RECORDS, start_ms=START_MS + day * DAY_MS, step_ms=step_ms)


def _decode(spark: SparkSession, landing: Path, folder: Path) -> None:
    """Reading, verifying, decoding, and writing the messages down beside the tables."""
    files = spark.read.format("binaryFile").schema(FILES).load(str(landing))
    decode_archives(files, DecodeSettings(), folder).write.format("noop").mode("overwrite").save()


def _run(spark: SparkSession, landing: Path, tables: Path) -> None:
    run_job(spark, JobSettings(landing=landing, tables=tables), Progress(quiet=True))


def _core_s(archive: Path) -> float:
    data = archive.read_bytes()
    start_s = time.process_time()
    for _ in decode_archive(archive.name, data, 0, DecodeSettings(), lambda _: None):
        pass
    return (time.process_time() - start_s) / RECORDS


def _recover_s(archive: Path) -> float:
    """Of one bare recover, over the signatures of the archive's own messages."""
    data = archive.read_bytes()
    block = open_archive(lambda offset, count: data[offset : offset + count], len(data)).block(0)
    pairs = [_signature_and_digest(record.text) for record in block.records]
    start_s = time.process_time()
    for signature, digest in pairs:
        coincurve.PublicKey.from_signature_and_message(signature, digest, hasher=None)
    return (time.process_time() - start_s) / len(pairs)


def _signature_and_digest(text: bytes) -> tuple[bytes, bytes]:
    message = parse_stream_message(text)
    raw = bytes.fromhex((message.signature or "").removeprefix("0x"))
    return raw[:64] + bytes([raw[64] - 27]), eip191_digest(signed_payload(message).encode())


def _cpu_s(work: Callable[[], None]) -> float:
    """CPU seconds of this process and all below it while it works."""
    before = _spent_s()
    work()
    return _spent_s() - before


def _spent_s() -> float:
    """Of the whole tree of processes, with those that have ended and were waited for."""
    ticks = os.sysconf("SC_CLK_TCK")
    listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = {int(pid): int(parent) for pid, parent in (line.split() for line in listing.splitlines())}
    mine = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return sum(_ticks(pid) for pid in mine) / ticks


def _ticks(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0
    return sum(map(int, fields[11:15]))  # user and system, its own and of children that were waited for


def _median(values: list[float]) -> float:
    return statistics.median(values)
