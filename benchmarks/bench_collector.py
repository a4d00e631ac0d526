"""The collector against a plain copy of the same file with fsync, on the same disk.

The collector runs in a process of its own, and the client sends from memory as fast as it can. Both work on the same
archives of 16 MB in turns; the collector hashes each byte twice (for its name, and for the block that was signed),
checks the signatures, and syncs the archive, its name and a receipt.
"""

import hashlib
import http.client
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from nacl.signing import SigningKey

from benchmarks.harness import Figure
from benchmarks.process_tree import cpu_s, peak_rss_mb
from ingest.collector.devices import AllowList, Device
from ingest.collector.keys import create_keys
from protocol.archive.header import Header
from protocol.archive.records import Record
from protocol.archive.writer import ArchiveWriter
from protocol.binding import Binding, sign_binding
from protocol.devicelog.log import LogHead
from protocol.ethereum import Signer
from protocol.shipping import ClaimStatement, archive_path, sign_claim

ROUNDS = 9
TEXTS = 64
TEXT_BYTES = 256 * 1024
MEGA = 1_000_000
ARCHIVE_KEY = SigningKey(bytes(range(32)))


def measure() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="headgate-bench-", dir=Path.cwd()) as folder:
        yield from _measure_in(Path(folder))


def _measure_in(root: Path) -> Iterator[Figure]:
    binding = sign_binding(Signer(bytes(range(1, 33))), bytes(ARCHIVE_KEY.verify_key))
    collector_key = create_keys(root / "state" / "keys", os.urandom).signing
    device = Device(address=binding.address, archive_key=binding.archive_key, enrolled_at_ms=1)
    AllowList(root / "state" / "devices").enrol(device)
    collector_s, copy_s = [], []
    with _running_collector(root) as (client, process):
        idle_cpu_s = cpu_s(process.pid)
        for number in range(ROUNDS):
            data = _make_archive(binding, number)
            source = root / f"source-{number}"
            source.write_bytes(data)
            collector_s.append(
                _seconds_of(partial(_upload, client, data, *_claim(binding, number, data, collector_key)))
            )
            copy_s.append(_seconds_of(partial(_copy, source, root / f"copy-{number}")))
        spent_s = cpu_s(process.pid) - idle_cpu_s
        peak_mb = peak_rss_mb(process.pid)
    speeds = [len(data) / statistics.median(seconds) / MEGA for seconds in (collector_s, copy_s)]
    yield Figure(
        name="collector, accepted and durable, × plain copy with fsync",
        value=speeds[0] / speeds[1],
        unit="×",
        note="{:.0f} MB/s against {:.0f} MB/s".format(*speeds),
    )
    yield Figure(
        name="collector, CPU time per megabyte",
        value=spent_s * 1000 / (ROUNDS * len(data) / MEGA),
        unit="ms",
        note="hashing it twice included",
    )
    yield Figure(name="collector, peak memory", value=peak_mb, unit="MB", note="archives of 16 MB")


def _make_archive(binding: Binding, number: int) -> bytes:
    header = Header(binding=binding, journal_id=b"journal-of-bench", created_at_ms=1_700_000_000_000)
    writer = ArchiveWriter(header, sign=lambda message: ARCHIVE_KEY.sign(message).signature)
    noise = random.Random(number)
    parts = [writer.begin()]
    for position in range(TEXTS):
        text = noise.randbytes(TEXT_BYTES)  # incompressible
        parts.append(writer.add(Record(text, "chain", 1_700_000_000_000 + position, 0, 0, position, 1_700_000_000_000)))
    return b"".join([*parts, writer.finish(_log(number).entry({0: TEXTS}))])


def _log(number: int) -> LogHead:
    """Each archive is the first of a log of its own."""
    return LogHead(log=number.to_bytes(16, "big"))


@contextmanager
def _running_collector(root: Path) -> Iterator[tuple[http.client.HTTPConnection, "subprocess.Popen[str]"]]:
    where = ["--listen", "127.0.0.1:0", "--landing", str(root / "landing"), "--state", str(root / "state")]
    fast = ["--device-bytes-per-s", str(10**12), "--min-free-bytes", "0"]
    command = [sys.executable, "-m", "agent", "collector", "run", *where, *fast]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        client = http.client.HTTPConnection("127.0.0.1", int(process.stdout.readline().rpartition(":")[2]))
        try:
            yield client, process
        finally:
            client.close()
            process.terminate()


def _claim(binding: Binding, number: int, data: bytes, collector_key: bytes) -> tuple[str, str]:
    statement = ClaimStatement(
        binding=binding,
        archive=hashlib.sha256(data).digest(),
        size_bytes=len(data),
        entry=_log(number).entry({0: TEXTS}),
        collector_key=collector_key,
    )
    claim = sign_claim(statement, lambda message: ARCHIVE_KEY.sign(message).signature)
    return archive_path(claim.archive), claim.to_header()


def _upload(client: http.client.HTTPConnection, data: bytes, path: str, authorization: str) -> None:
    client.request("PUT", path, data, {"Authorization": authorization})
    response = client.getresponse()
    if response.status != 201:
        raise RuntimeError(f"the collector answered {response.status}: {response.read()!r}")
    response.read()


def _copy(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    with target.open("rb+") as file:
        os.fsync(file.fileno())


def _seconds_of(action: Callable[[], None]) -> float:
    start_s = time.perf_counter()
    action()
    return time.perf_counter() - start_s
