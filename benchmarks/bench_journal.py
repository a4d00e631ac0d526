"""The journal against SQLite: CPU per record, bytes that reach the device, and how long opening takes."""

import contextlib
import itertools
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal

from agent.journal import DirectoryDisk, Entry, Journal, JournalSettings
from agent.journal.layout import PAGE_BYTES
from benchmarks.block_device import Device, small_device
from benchmarks.harness import Figure, cpu_seconds_per_call
from benchmarks.sample_messages import CHAIN, PERIOD_MS, START_MS, sample_messages

MESSAGES = 5000
BATCH = 250
BATCHES = (10, 100, 250)
COMMITS_PER_MEASUREMENT = 300
LIMITS = {("none", 10): 1.5, ("none", 100): 1.12, ("zstd", 10): 1.5, ("zstd", 100): 0.33}
OPENED_BYTES = 256 << 20

Compression = Literal["zstd", "none"]


def measure() -> Iterable[Figure]:
    messages = sample_messages(MESSAGES)
    yield from _cpu(messages)
    yield from _device_bytes(messages)
    yield from _opening(messages)


# CPU


def _cpu(messages: list[bytes]) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="bench-journal-") as directory:
        root = Path(directory)
        candidates = {
            "zstd": _journal_writer(root / "zstd", "zstd", messages, BATCH),
            "none": _journal_writer(root / "none", "none", messages, BATCH),
            "sqlite": _sqlite_writer(root, messages, BATCH),
        }
        seconds = cpu_seconds_per_call(candidates)
    per_record_us = {name: taken / BATCH * 1e6 for name, taken in seconds.items()}
    note = f"{BATCH} × {len(messages[0])} bytes per commit; SQLite {per_record_us['sqlite']:.2f} µs (WAL, FULL)"
    for name in ("zstd", "none"):
        figure = f"journal, {name}: CPU per record"
        yield Figure(name=figure, value=per_record_us[name], unit="µs", note=note)
        ratio = per_record_us["sqlite"] / per_record_us[name]
        yield Figure(name=f"journal, {name}: SQLite's CPU by ours", value=ratio, unit="×", at_least=1)


def _journal_writer(
    directory: Path, compression: Compression, messages: list[bytes], batch: int
) -> Callable[[], object]:
    """Appends and commits a batch, and moves a cursor, as while the link is up."""
    settings = JournalSettings(compression=compression)
    journal = Journal(DirectoryDisk(directory), settings, new_journal_id=1, now_ms=0)
    publisher = journal.cursor("publisher")
    batches = itertools.cycle(_batches(messages, batch))
    clock_ms = itertools.count(START_MS, batch * PERIOD_MS)

    def write() -> None:
        now_ms = next(clock_ms)
        positions = journal.append_many(0, next(batches))
        journal.commit(now_ms)
        publisher.acknowledge(0, positions[-1])

    return write


def _batches(messages: list[bytes], batch: int) -> list[list[Entry]]:
    entries = [Entry(message, CHAIN, START_MS + at * PERIOD_MS, 0) for at, message in enumerate(messages)]
    return [entries[start : start + batch] for start in range(0, len(entries) - batch + 1, batch)]


def _sqlite_writer(directory: Path, messages: list[bytes], batch: int) -> Callable[[], object]:
    connection = sqlite3.connect(directory / "peer.sqlite", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    columns = "position INTEGER PRIMARY KEY, chain TEXT, timestamp_ms INTEGER, sequence INTEGER, payload BLOB"
    connection.execute(f"CREATE TABLE records ({columns})")
    rows = [
        [(CHAIN, entry.timestamp_ms, entry.sequence, entry.payload) for entry in part]
        for part in _batches(messages, batch)
    ]
    parts = itertools.cycle(rows)
    insert = "INSERT INTO records (chain, timestamp_ms, sequence, payload) VALUES (?, ?, ?, ?)"

    def write() -> None:
        connection.execute("BEGIN")
        connection.executemany(insert, next(parts))
        connection.execute("COMMIT")

    return write


# Bytes that reach the device


def _device_bytes(messages: list[bytes]) -> Iterator[Figure]:
    hashed = sample_messages(MESSAGES, hashed=True)
    with small_device() as device:
        for batch in BATCHES:
            for compression in ("none", "zstd"):
                name = f"journal, {compression}, commits of {batch}: device bytes per payload byte"
                limit = LIMITS.get((compression, batch))
                value = _journal_device_bytes(device, compression, messages, batch)
                yield Figure(name=name, value=value, unit="", at_most=limit, note=device.method)
            value = _sqlite_device_bytes(device, messages, batch)
            yield Figure(name=f"SQLite, commits of {batch}: device bytes per payload byte", value=value, unit="")
        value = _journal_device_bytes(device, "zstd", hashed, 100)
        note = f"{len(hashed[0])} bytes each, two hashes in them"
        yield Figure(name="the same, zstd, 100 hash-chained messages", value=value, unit="", note=note)


def _journal_device_bytes(device: Device, compression: Compression, messages: list[bytes], batch: int) -> float:
    """Measures after every file was written once, as on a device that has run for a while."""
    write = _journal_writer(device.new_directory(), compression, messages, batch)
    payload_bytes = batch * len(messages[0])
    block_bytes = max(PAGE_BYTES, payload_bytes // (5 if compression == "zstd" else 1))
    for _ in range(2 * JournalSettings().segment_bytes // block_bytes):
        write()
    return _written_per_payload_byte(device, write, payload_bytes)


def _sqlite_device_bytes(device: Device, messages: list[bytes], batch: int) -> float:
    write = _sqlite_writer(device.new_directory(), messages, batch)
    return _written_per_payload_byte(device, write, batch * len(messages[0]))


def _written_per_payload_byte(device: Device, write: Callable[[], object], payload_bytes: int) -> float:
    before = device.written_bytes()
    for _ in range(COMMITS_PER_MEASUREMENT):
        write()
    return (device.written_bytes() - before) / (COMMITS_PER_MEASUREMENT * payload_bytes)


# Opening


def _opening(messages: list[bytes]) -> Iterator[Figure]:
    settings = JournalSettings(compression="none", max_bytes=2 * OPENED_BYTES)
    with tempfile.TemporaryDirectory(prefix="bench-journal-") as name:
        directory = Path(name)
        journal = Journal(DirectoryDisk(directory), settings, new_journal_id=1, now_ms=0)
        batches = itertools.cycle(_batches(messages, BATCH))
        for part in itertools.islice(batches, OPENED_BYTES // (BATCH * len(messages[0]))):
            journal.append_many(0, part)
            journal.commit(0)
        journal.close(0)
        gigabytes = journal.stats(0).bytes_on_disk / 1e9
        yield Figure(name="opening a journal, per GB", value=_open_s(directory, settings) / gigabytes, unit="s")
        for state in directory.glob("state-*"):
            state.unlink()
        value = _open_s(directory, settings) / gigabytes
        yield Figure(name="opening it without any state, per GB", value=value, unit="s", note="from the page cache")


def _open_s(directory: Path, settings: JournalSettings) -> float:
    with contextlib.closing(DirectoryDisk(directory)) as disk:
        start_s = time.perf_counter()
        Journal(disk, settings, new_journal_id=1, now_ms=0)
        return time.perf_counter() - start_s
