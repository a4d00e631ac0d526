"""The job: a landing area → tables. This file wires the stages and does nothing itself.

    landing ──► decode ──► clean ──► load ──► tables
    files       rows       dated,    one commit per batch
                           once

Run by `headgate ingest run`, or by `spark-submit ingest/job.py` with the same arguments. Structured Streaming
remembers which files it has seen; that is for speed alone. What the tables hold is decided by the digests of the
archives in them, so a lost checkpoint costs a second look at each file and changes nothing.
"""

import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Final

from pyspark import StorageLevel
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ingest.archive_rows import DecodeSettings, KnownVerdicts
from ingest.checkpoints import Beside, Warn, read_checkpoints, read_forks
from ingest.collector.devices import addresses_in
from ingest.decode import decode_archives
from ingest.deliveries import Deliveries, Waiting
from ingest.handed_over import HandedOver
from ingest.known import Announcer
from ingest.load import Loaded, load_batch, load_beside, unlock_archives
from ingest.progress import Progress
from ingest.store import Store, TableFormat

FILES: Final = "path string, modificationTime timestamp, length long, content binary"  # as binaryFile gives them
ARCHIVE_NAMES: Final = "*.hg[as]"
MAX_OPENED_AT_ONCE: Final = 32  # archives, in one commit
LOOK_EVERY_S: Final = 1  # for a wish to stop
FOR_EVER: Final = "36500d"  # Spark passes over files that look older than this beside the newest


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    landing: Path
    tables: Path
    table_format: TableFormat | None = None
    decode: DecodeSettings = field(default_factory=DecodeSettings)
    batch_bytes: int = 64 * 1024 * 1024
    batch_archives: int | None = None  # instead of batch_bytes
    devices_folder: Path | None = None  # the collector's; who is enrolled there by now is taken too
    every_s: float | None = None  # look for new archives every so often, for ever; None stops when all are ingested
    again: bool = False  # look at every file of the landing area once more


def run_job(
    spark: SparkSession,
    settings: JobSettings,
    progress: Progress | None = None,
    stopping: threading.Event | None = None,
) -> None:
    """Ingest what is in the landing area; once `stopping` is set, end after the batch that is under way.

    Raises: IngestBusy, IngestError, OSError; errors of Spark.
    """
    with Store(settings.tables, settings.table_format) as store:
        if settings.again:
            shutil.rmtree(store.checkpoint, ignore_errors=True)
        deliveries = Deliveries.of(store)
        shown = progress or Progress()
        there = _count_archives(settings.landing)
        shown.expect(there if settings.again else there - len(deliveries))

        under_way = threading.Lock()
        runner = _BatchRunner(spark, store, settings, deliveries, shown.warn)
        runner.unlock()

        failures: list[Exception] = []

        def ingest(files: DataFrame, _batch: int) -> None:
            try:
                with under_way:
                    shown.reach(runner.ingest(files))
                    runner.unlock()
            except Exception as error:
                failures.append(error)  # on its way through Java it becomes a text
                raise

        def run_stream() -> None:
            _await_end(_start(spark, settings, store, ingest), stopping or threading.Event(), under_way)

        try:
            _with_a_readable_checkpoint(store, run_stream, failures)
        except StreamingQueryException as error:
            raise (failures or [error])[0] from None
        runner.settle()
        shown.finish()


def _with_a_readable_checkpoint(store: Store, run_stream: Callable[[], None], failures: list[Exception]) -> None:
    """What Spark fails at before or between batches is most likely its own notes, which a power cut leaves cut short.

    Without them it looks at every file again.
    """
    try:
        run_stream()
    except StreamingQueryException:
        if failures or not store.checkpoint.exists():
            raise
        shutil.rmtree(store.checkpoint)
        run_stream()


def _await_end(query: StreamingQuery, stopping: threading.Event, under_way: threading.Lock) -> None:
    while not query.awaitTermination(LOOK_EVERY_S):
        if stopping.is_set():
            with under_way:
                query.stop()


class _BatchRunner:
    """Ingests batches, with the state that the Spark driver holds between them."""

    def __init__(
        self, spark: SparkSession, store: Store, settings: JobSettings, deliveries: Deliveries, warn: Warn
    ) -> None:
        self._spark = spark
        self._store = store
        self._settings = settings
        self._deliveries = deliveries
        self._announcer = Announcer(spark, deliveries)
        self._handed_over = HandedOver(store)
        self._warn = warn
        self._beside = self._read_beside()

    def ingest(self, files: DataFrame) -> Loaded:
        """One batch of files of the landing area, in one commit."""
        with self._decoded(files, known=self._announcer.announce()) as (decoded, folder):
            loaded = load_batch(self._store, decoded, folder, self._deliveries, self._handed_over, self._beside)
        if not self._is_listed_once:
            self._beside = self._read_beside()
        return loaded

    def settle(self) -> None:
        """Enter what came beside the archives, also where no archive came."""
        if self._is_listed_once:
            load_beside(self._store, self._beside)

    @property
    def _is_listed_once(self) -> bool:
        """Whether all batches are of archives that were there at the start. Others are listed before each batch."""
        return self._settings.every_s is None

    def _read_beside(self) -> Beside:
        """Read before the next archives are listed: those of which a checkpoint speaks are there by then.

        Archives that come after the list are missing in no ledger, but checkpoints that come after it would say so.
        """
        checkpoints = read_checkpoints(self._settings.landing, self._devices(), self._warn)
        forked = read_forks(self._settings.landing)
        return Beside(tuple(checkpoints), tuple(forked), self._settings.decode.receipts)

    def unlock(self) -> None:
        """Open what waited for a key that is known by now, in a commit of its own, until nothing more can be opened.

        It costs what waits, whatever the history: files are read by their names.
        """
        tried: set[Waiting] = set()
        while ready := list(islice(self._ready(tried), MAX_OPENED_AT_ONCE)):
            tried.update(ready)
            paths = [str(self._settings.landing / each.path) for each in ready]
            files = self._spark.read.format("binaryFile").schema(FILES).load(paths)
            in_order = files.coalesce(1).sortWithinPartitions("modificationTime")  # keys are handed on and on
            with self._decoded(in_order, known={}) as (decoded, folder):
                opened = unlock_archives(self._store, decoded, folder, [each.locked for each in ready])
            self._handed_over.add(opened)
            self._deliveries.enter(opened, [])

    def _ready(self, tried: set[Waiting]) -> Iterator[Waiting]:
        """Whatever was tried and lacks fewer keys since may be tried again."""
        given = self._settings.decode.group_keys
        for each in self._deliveries.waiting.values():
            is_known = self._handed_over.opens(each.device, each.locked, given)
            if is_known and each not in tried and (self._settings.landing / each.path).is_file():
                yield each

    def _devices(self) -> frozenset[str] | None:
        """Who may bring archives by now; None if anybody may."""
        named, folder = self._settings.decode.devices, self._settings.devices_folder
        return named if folder is None else addresses_in(folder) | (named or frozenset())

    @contextmanager
    def _decoded(self, files: DataFrame, known: KnownVerdicts) -> Iterator[tuple[DataFrame, Path]]:
        """Decoded rows, and the folder in which their messages are; both are gone afterwards."""
        decode = replace(
            self._settings.decode,
            devices=self._devices(),
            known=known,
            learned=self._handed_over.keys,
            landing=self._settings.landing.absolute().as_posix(),
        )
        folder = self._store.work("decoded")
        try:
            yield decode_archives(files, decode, folder).persist(StorageLevel.MEMORY_AND_DISK), folder
        finally:
            self._spark.catalog.clearCache()


def _start(
    spark: SparkSession, settings: JobSettings, store: Store, ingest: Callable[[DataFrame, int], None]
) -> StreamingQuery:
    files = (
        spark.readStream.format("binaryFile")
        .schema(FILES)
        .option("pathGlobFilter", ARCHIVE_NAMES)
        .option("recursiveFileLookup", "true")
        .option("maxFileAge", FOR_EVER)
        .option(*_batch_limit(settings))
        .load(str(settings.landing))
    )
    writer = files.writeStream.foreachBatch(ingest).option("checkpointLocation", str(store.checkpoint))
    if settings.every_s is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{settings.every_s} seconds").start()


def _batch_limit(settings: JobSettings) -> tuple[str, str]:
    if settings.batch_archives is not None:
        return "maxFilesPerTrigger", str(settings.batch_archives)
    return "maxBytesPerTrigger", str(settings.batch_bytes)


def _count_archives(landing: Path) -> int:
    return sum(1 for path in landing.rglob(ARCHIVE_NAMES) if not path.name.startswith((".", "_")))


if __name__ == "__main__":
    from ingest.cli import main

    sys.exit(main(["run", *sys.argv[1:]]))
