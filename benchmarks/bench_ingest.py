"""The ingest against bare coincurve recover on the same cores: decoding, the whole run, a second core, and history.

Everything is counted in CPU seconds of the driver, the JVM and the Python workers together, so that other work on the
machine counts less. Bare recover is measured before and after each of them, on as many cores at once, so that both are
affected alike. A ratio of 0.5 means that half of the time is the signature check, which every ingest needs.
"""

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import coincurve
from pyspark.sql import SparkSession

from benchmarks.bulk_archives import BulkChain, write_bulk_archive
from benchmarks.harness import Figure, cpu_seconds_per_call
from benchmarks.process_tree import cpu_s_by_program
from ingest.archive_rows import DecodeSettings, decode_archive
from ingest.decode import decode_archives
from ingest.job import FILES, JobSettings, run_job
from ingest.progress import Progress
from ingest.session import RUN_OPTIONS, open_session
from protocol.archive.random_access import OpenArchive, open_archive
from protocol.ethereum.hashing import eip191_digest
from protocol.ethereum.secp256k1 import default_backend
from protocol.streamr.stream_message import parse_stream_message
from protocol.streamr.stream_message.signing import signed_payload
from testbed.corpus.archives import Device

CORES = 2
ARCHIVES = 40
RECORDS = 5_000  # per archive
CHAINS = 10
ROUNDS = 3
BARE_ARCHIVES = 20
START_MS = 1_790_000_000_000
DAY_MS = 86_400_000
HISTORIES_DAYS = (1, 10, 100)
DAILY_RECORDS = 1_000
DAYS_MEASURED = 4
PACKED_READINGS = 25_000  # in one archive
PACKS = {(10, 1): None, (50, 1): 4.0, (50, 3): None, (250, 1): None}  # readings and sensors of a pack → the limit


def measure() -> Iterator[Figure]:
    folder = Path(tempfile.mkdtemp(prefix="headgate-bench-"))
    try:
        landing = folder / "landing"
        landing.mkdir()
        sample = _write_corpus(landing)
        yield from _measure_record(sample)
        yield from _measure_packs(folder)
        with ProcessPoolExecutor(CORES, get_context("spawn")) as pool, _session(CORES) as spark:
            two_cores_s = yield from _measure_run(spark, folder, landing, partial(_bare_s, pool, landing))
        with ProcessPoolExecutor(1, get_context("spawn")) as alone:
            yield from alone.submit(_histories, folder).result()
        yield from _measure_one_core(folder, landing, two_cores_s)
    finally:
        shutil.rmtree(folder)


def _write_corpus(landing: Path) -> Path:
    """Write archives of one device. Returns the last one."""
    device = Device(1)
    chains = [BulkChain(device, f"sensor-{number}") for number in range(CHAINS)]
    span_ms = RECORDS // CHAINS * 1000
    starts = [START_MS + number * span_ms for number in range(ARCHIVES)]
    return [write_bulk_archive(landing, chains, records=RECORDS, start_ms=start) for start in starts][-1]


@contextmanager
def _session(cores: int) -> Iterator[SparkSession]:
    options = {
        **RUN_OPTIONS,
        "spark.driver.memory": "2g",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    spark = open_session(f"local[{cores}]", options)
    try:
        yield spark
    finally:
        spark.stop()


def _measure_record(sample: Path) -> Iterator[Figure]:
    """The cost of one record in Python, and its parts."""
    data = sample.read_bytes()
    archive = _opened(data)
    texts = archive.block(1).columns.texts
    pairs = [_signature_and_digest(text) for text in texts]
    payloads = [signed_payload(parse_stream_message(text)).encode() for text in texts]
    took = cpu_seconds_per_call(
        {
            "recover": lambda: _recover_all(pairs),
            "verify with a known key": lambda: _verify_all(pairs),
            "hash what is signed": lambda: [eip191_digest(payload) for payload in payloads],
            "read a block": lambda: archive.block(1),
            "all": partial(_decode_core, sample.name, data),
        }
    )
    took = {name: cost_s / (RECORDS if name == "all" else len(texts)) for name, cost_s in took.items()}
    known_s = took["verify with a known key"] + took["hash what is signed"] + took["read a block"]
    shares = {**took, "texts, ioMessage, hash, chain, columns": took["all"] - known_s}
    shown = ", ".join(f"{name} {shares[name] * 1e6:.1f}" for name in shares if name != "all")
    yield Figure(
        name="ingest core: decode and verify in Python, × bare recover",
        value=took["recover"] / took["all"],
        unit="×",
        note=f"µs: {shown}",
    )


def _measure_packs(folder: Path) -> Iterator[Figure]:
    """The cost of one reading of a pack in Python: a signature for each pack is checked, and everything else."""
    for (readings, sensors), limit in PACKS.items():
        sample = _write_packs(folder, readings, sensors)
        data = sample.read_bytes()
        archive = _opened(data)
        pairs = [_signature_and_digest(text) for text in archive.block(0).columns.texts]
        took = cpu_seconds_per_call(
            {"recover": partial(_recover_all, pairs), "all": partial(_decode_core, sample.name, data)}
        )
        recover_s, reading_s = took["recover"] / len(pairs), took["all"] / archive.manifest.readings
        yield Figure(
            name=f"ingest core: readings in packs of {readings}{'' if sensors == 1 else f' of {sensors} sensors'}, "
            "decode and verify in Python, × bare recover",
            value=recover_s / reading_s,
            unit="×",
            at_least=limit,
            note=f"{reading_s * 1e6:.1f} µs per reading; recover {recover_s * 1e6:.1f}",
        )


def _write_packs(folder: Path, readings: int, sensors: int) -> Path:
    """Write two archives of packs. Returns the second, whose chain positions have the width that most have."""
    device = Device(3)
    chains = [BulkChain(device, f"sensor-{number}", sensors=sensors) for number in range(CHAINS)]
    records = PACKED_READINGS // readings
    starts = (START_MS, START_MS + DAY_MS)
    written = [write_bulk_archive(folder, chains, records=records, start_ms=each, readings=readings) for each in starts]
    return written[-1]


def _recover_all(pairs: list[tuple[bytes, bytes]]) -> None:
    for signature, digest in pairs:
        coincurve.PublicKey.from_signature_and_message(signature, digest, hasher=None)


def _verify_all(pairs: list[tuple[bytes, bytes]]) -> None:
    backend = default_backend()
    signature, digest = pairs[0]
    key = backend.load_public_key(backend.recover(digest, _with_v(signature)) or b"")
    key.verify_all([digest for _, digest in pairs], [signature for signature, _ in pairs])


def _with_v(signature: bytes) -> bytes:
    return signature[:64] + bytes([signature[64] + 27])


def _decode_core(name: str, data: bytes) -> None:
    for _ in decode_archive(name, data, 0, DecodeSettings(), lambda _: None):
        pass


def _measure_run(
    spark: SparkSession, folder: Path, landing: Path, bare_s: Callable[[], float]
) -> Generator[Figure, None, float]:
    """Returns the wall time of the last whole run."""
    records = ARCHIVES * RECORDS
    decode, run, wall_s = [], [], 0.0
    shares: dict[str, float] = {}
    for number in range(ROUNDS + 1):
        before_s = bare_s()
        decode_cpu = _cpu_s(partial(_decode, spark, landing, folder / "decoded"))
        between_s = bare_s()
        start_s = time.monotonic()
        shares = _cpu_s(partial(_run, spark, landing, folder / f"tables-{number}"))
        wall_s = time.monotonic() - start_s
        decode.append((before_s + between_s) / 2 * records / sum(decode_cpu.values()))
        run.append((between_s + bare_s()) / 2 * records / sum(shares.values()))
        shutil.rmtree(folder / "decoded")
    cold = run.pop(0)
    del decode[0]
    parts = ", ".join(f"{name} {cpu_s / records * 1e6:.1f}" for name, cpu_s in sorted(shares.items()) if cpu_s > 0.1)
    yield Figure(
        name="ingest decode and verify in Spark, × bare recover",
        value=statistics.median(decode),
        unit="×",
        at_least=0.85,
        note=f"{min(decode):.2f} to {max(decode):.2f}",
    )
    yield Figure(
        name="ingest whole run, all tables, warm, × bare recover",
        value=statistics.median(run),
        unit="×",
        at_least=0.5,
        note=f"{min(run):.2f} to {max(run):.2f}; µs: {parts}",
    )
    yield Figure(name="ingest whole run, all tables, cold, × bare recover", value=cold, unit="×", note="JVM not warm")
    return wall_s


def _bare_s(pool: ProcessPoolExecutor, landing: Path) -> float:
    """CPU seconds of one bare recover on all cores, measured for about as long as the work that it is compared with."""
    archives = sorted(landing.iterdir())[:BARE_ARCHIVES]
    return statistics.mean(pool.map(_recover_s, archives))


def _measure_one_core(folder: Path, landing: Path, two_cores_s: float) -> Iterator[Figure]:
    """Compares wall times, because a second core saves only those; meaningless on a busy machine."""
    with _session(1) as spark:
        _run(spark, landing, folder / "tables-to-warm-up")
        start_s = time.monotonic()
        _run(spark, landing, folder / "tables-on-one")
        one_core_s = time.monotonic() - start_s
    yield Figure(
        name="ingest speed-up from one core to two",
        value=one_core_s / two_cores_s,
        unit="×",
        note=f"{ARCHIVES * RECORDS / two_cores_s:.0f} records/s on {CORES} cores",
    )


def _histories(folder: Path) -> list[Figure]:
    """Runs in its own process, whose JVM has no large heap of earlier runs to collect."""
    with _session(CORES) as spark:
        return list(_measure_history(spark, folder))


def _measure_history(spark: SparkSession, folder: Path) -> Iterator[Figure]:
    """The cost of one more day after 1, 10 and 100 days, each the minimum of a few days."""
    device = Device(2)
    chains = [BulkChain(device, "sensor")]
    landing, tables = folder / "days", folder / "history"
    landing.mkdir()
    cost_s = {}
    day = 0
    for days in HISTORIES_DAYS:
        while day < days:
            for _ in range(min(30, days - day)):
                _write_day(landing, chains, day)
                day += 1
            _run(spark, landing, tables)
        costs = []
        for _ in range(DAYS_MEASURED):
            _write_day(landing, chains, day)
            day += 1
            costs.append(sum(_cpu_s(lambda: _run(spark, landing, tables)).values()))
        cost_s[days] = min(costs)
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
    """Read, verify and decode the archives, and write the messages."""
    files = spark.read.format("binaryFile").schema(FILES).load(str(landing))
    decode_archives(files, DecodeSettings(), folder).write.format("noop").mode("overwrite").save()


def _run(spark: SparkSession, landing: Path, tables: Path) -> None:
    run_job(spark, JobSettings(landing=landing, tables=tables), Progress(quiet=True))


def _recover_s(archive: Path) -> float:
    """CPU seconds of one bare recover, over the signatures in an archive."""
    opened = _opened(archive.read_bytes())
    blocks = [opened.block(index) for index in range(len(opened.manifest.blocks))]
    pairs = [_signature_and_digest(text) for block in blocks for text in block.columns.texts]
    start_s = time.process_time()
    _recover_all(pairs)
    return (time.process_time() - start_s) / len(pairs)


def _opened(data: bytes) -> OpenArchive:
    return open_archive(lambda offset, count: data[offset : offset + count], len(data))


def _signature_and_digest(text: bytes) -> tuple[bytes, bytes]:
    message = parse_stream_message(text)
    raw = bytes.fromhex((message.signature or "").removeprefix("0x"))
    return raw[:64] + bytes([raw[64] - 27]), eip191_digest(signed_payload(message).encode())


def _cpu_s(work: Callable[[], None]) -> dict[str, float]:
    """CPU seconds that the work costs in this process and its descendants, by program."""
    before = cpu_s_by_program(os.getpid())
    work()
    return {name: spent_s - before.get(name, 0.0) for name, spent_s in cpu_s_by_program(os.getpid()).items()}
