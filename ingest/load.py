"""One batch of archives → one commit of all tables."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from ingest.account import Account, Boot, ChainName, Gap
from ingest.checkpoints import Beside
from ingest.clean import (
    SIGNED_TEXT,
    apply_corrections,
    choose_quarantine,
    drop_copies,
    drop_duplicates,
    find_duplicates,
    one_row_each,
    opened_rows,
    repeated_texts,
    rows_but,
    rows_of_boots,
    suspected_rows,
)
from ingest.decoded import LATEST_MS
from ingest.deliveries import Deliveries
from ingest.handed_over import HandedOver
from ingest.rollup import merge_rollups, roll_up
from ingest.schemas import MESSAGES, PARTITIONED, ROLLUPS, TABLES
from ingest.small_tables import CLOSED, archive_rows, closed_gaps, gap_rows, ledger_rows, write_rows
from ingest.store import DATE_PREFIX, Change, Store, StoredFile
from ingest.summary import DUPLICATE, KNOWN, UNLOCKED, VERIFIED, ArchiveSummary, Correction, Locked

READINGS_PER_FILE: Final = 500_000
ORDER: Final = ("date", "device", "chain", "timestamp_ms", "sequence", "reading")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What one batch brought."""

    archives: int
    records: int


def load_batch(
    store: Store, decoded: DataFrame, folder: Path, deliveries: Deliveries, handed_over: HandedOver, beside: Beside
) -> Loaded:
    """Enter decoded rows into the tables: all of them in one commit, or, if they bring nothing new, none.

    `folder` is where the decoder has written the messages; `beside` is what came with the archives.
    """
    delivered, files = _collect(decoded)
    handed_over.add(delivered)
    chosen = _choose(delivered)
    duplicates = deliveries.duplicates(delivered, chosen)
    if chosen or duplicates:
        _Batch(store, decoded, delivered, chosen, duplicates, _Staged(folder, files)).load(beside)
        deliveries.enter(chosen, duplicates)
    return Loaded(archives=len(delivered), records=sum(summary.records or 0 for summary in delivered))


def load_beside(store: Store, beside: Beside) -> None:
    """Enter what checkpoints and receipts tell, in a commit of its own, if it is anything new."""
    account = store.account()
    gaps_before, known = account.gaps(), account.to_json()
    beside.enter(account)
    if account.to_json() != known:
        store.commit(account, _ledger_changes(store, account, gaps_before))


def _collect(decoded: DataFrame) -> tuple[list[ArchiveSummary], list[Path]]:
    """In one go, since a task that runs again writes its files again, under other names."""
    is_wanted = F.col("kind").isin("summary", "file")
    rows = decoded.where(is_wanted).select("summary", "file").collect()
    summaries = [ArchiveSummary.from_json(row.summary) for row in rows if row.summary is not None]
    return sorted(summaries, key=lambda each: each.path), sorted(Path(row.file) for row in rows if row.file is not None)


def _choose(summaries: list[ArchiveSummary]) -> list[ArchiveSummary]:
    """Each new archive once; where it came twice, the file of which more can be read."""
    by_worth = sorted(summaries, key=lambda each: (not each.chains, each.path), reverse=True)
    once = {each.archive: each for each in by_worth if each.verdict != KNOWN}
    return sorted(once.values(), key=lambda each: each.archive)


def unlock_archives(store: Store, decoded: DataFrame, folder: Path, locked: Iterable[Locked]) -> list[ArchiveSummary]:
    """Put the messages of archives that were decoded again in the place of those that stand locked in the tables.

    `locked` says where these stand.
    """
    delivered, files = _collect(decoded)
    opened = [replace(each, verdict=UNLOCKED) for each in delivered if each.chains]
    if opened:
        _Batch(store, decoded, delivered, opened, [], _Staged(folder, files)).unlock(
            {day for each in locked for day in _days(each)}
        )
    return opened


class _Staged(NamedTuple):
    """Files of messages in the work area, one folder per date."""

    folder: Path
    files: list[Path]

    def read(self, spark: SparkSession) -> DataFrame:
        if not self.files:
            return spark.createDataFrame([], MESSAGES)
        reader = spark.read.schema(MESSAGES).option("basePath", str(self.folder))
        return reader.parquet(*map(str, self.files)).select(MESSAGES.fieldNames())


def read_files(spark: SparkSession, store: Store, table: str, files: list[StoredFile]) -> DataFrame:
    """These files of a table, and no other; the date comes from the path."""
    paths = [store.path(table, file) for file in files]
    reader = spark.read.schema(TABLES[table]).option("basePath", str(store.folder / table))
    return reader.parquet(*paths).select(TABLES[table].fieldNames())


def write_files(store: Store, table: str, rows: DataFrame) -> tuple[Path, list[Path]]:
    """New files of a table in the work area, as a commit takes them, and the folder they are in."""
    folder = store.work(table)
    writer = rows.write.mode("overwrite")
    (writer.partitionBy("date") if table in PARTITIONED else writer).parquet(str(folder))
    return folder, sorted(folder.rglob("part-*.parquet"))


class _Batch:
    """The steps of one batch, in order. Everything is written beside the tables before any of it counts."""

    def __init__(
        self,
        store: Store,
        decoded: DataFrame,
        delivered: list[ArchiveSummary],
        chosen: list[ArchiveSummary],
        duplicates: list[ArchiveSummary],
        staged: _Staged,
    ) -> None:
        self._store = store
        self._spark = decoded.sparkSession
        self._decoded = decoded
        self._unwanted_paths = sorted({each.path for each in delivered} - {each.path for each in chosen})
        decoded_now = [each.archive for each in delivered if each.chains and each.verdict != KNOWN]
        self._came_twice = len(set(decoded_now)) < len(decoded_now)
        self._summaries = chosen
        self._duplicate_archives = duplicates
        self._staged = staged
        self._account = store.account()
        self._gaps_before = self._account.gaps()
        self._changes: dict[str, Change] = {}

    def load(self, beside: Beside) -> None:
        if self._summaries:
            self._enter_messages()
        self._account.add_duplicates(self._duplicate_archives)
        beside.enter(self._account)
        self._write_small_tables()
        self._store.commit(self._account, self._changes)

    def _enter_messages(self) -> None:
        changed_boots = self._account.learn(self._summaries)
        corrections = self._corrections()
        moved, kept, rewritten = self._rows_to_move(changed_boots)
        messages = apply_corrections(self._staged.read(self._spark), corrections)
        if self._came_twice:
            messages = drop_copies(messages)
        duplicates = self._duplicates(messages, moved)
        if duplicates is not None:
            messages = drop_duplicates(messages, duplicates)
        for more in (moved, kept):
            messages = messages if more is None else messages.unionByName(more)
        is_as_decoded = not corrections and not self._came_twice and duplicates is None and moved is None
        final = self._staged if is_as_decoded else self._write_messages(messages)
        self._changes["messages"] = Change(final.files, rewritten)
        self._write_rollups(final, rewritten)
        self._write_quarantine()
        self._account.add(self._summaries, _readings_by_chain(duplicates))
        self._note_boots(final, changed_boots)

    def unlock(self, dates: set[str]) -> None:
        """What the ledger counts stays the same: a message that is opened was counted when it was locked."""
        changed_boots = self._account.learn(self._summaries)
        moving = {day for boot in changed_boots for day in self._account.boot_dates.get(boot, ())}
        files = self._store.files("messages", sorted(dates | moving))
        if files:
            self._replace_locked(files, changed_boots)
        self._account.refine(self._summaries)
        self._write_small_tables()
        self._store.commit(self._account, self._changes)

    def _replace_locked(self, files: list[StoredFile], changed_boots: set[Boot]) -> None:
        there = read_files(self._spark, self._store, "messages", files)
        opened = apply_corrections(opened_rows(self._staged.read(self._spark), there), self._corrections()).persist()
        rest = drop_duplicates(there, opened)
        rest = apply_corrections(rest, {boot: self._account.corrections[boot] for boot in changed_boots})
        final = self._write_messages(rest.unionByName(opened))
        self._changes["messages"] = Change(final.files, files)
        self._write_rollups(final, files)
        self._note_boots(final, changed_boots)

    def _corrections(self) -> dict[Boot, Correction]:
        """What is known now of the boots in which messages of this batch were made."""
        boots = {Boot(summary.device or "", boot) for summary in self._summaries for boot in summary.boots}
        return {boot: self._account.corrections[boot] for boot in boots if boot in self._account.corrections}

    def _rows_to_move(self, boots: set[Boot]) -> tuple[DataFrame | None, DataFrame | None, list[StoredFile]]:
        """Readings in the tables whose true time is known only now, those that share files with them, and the files."""
        dates = {day for boot in boots for day in self._account.boot_dates.get(boot, ())}
        files = self._store.files("messages", sorted(dates)) if dates else []
        if not files:
            return None, None, []
        there = read_files(self._spark, self._store, "messages", files)
        moving = rows_of_boots(there, boots)
        corrections = {boot: self._account.corrections[boot] for boot in boots}
        return apply_corrections(moving, corrections), rows_but(there, moving), files

    def _duplicates(self, messages: DataFrame, moved: DataFrame | None) -> DataFrame | None:
        """Places of the messages that came before, under the same identity or another; None if there are none."""
        found = [self._same_identity(messages, moved), self._same_signed_text(messages, moved)]
        duplicates = [each for each in found if each is not None]
        if not duplicates:
            return None
        return reduce(DataFrame.unionByName, duplicates).distinct().persist()

    def _same_signed_text(self, messages: DataFrame, moved: DataFrame | None) -> DataFrame | None:
        """Looked up among messages of the same time, which a reading keeps whatever fields its text is cut into."""
        known = self._messages_of_the_time_of(messages)
        if moved is not None:
            known = moved if known is None else known.unionByName(moved)
        repeated = repeated_texts(messages, known).persist()
        if repeated.isEmpty():
            return None
        suspected = one_row_each(messages).join(repeated, on=list(SIGNED_TEXT), how="left_semi")
        return find_duplicates(suspected, known, SIGNED_TEXT)

    def _messages_of_the_time_of(self, messages: DataFrame) -> DataFrame | None:
        """Those in the tables, in the dates of these messages, whose event or own time lies within that of these.

        The own time is for what is or was locked: its event time is in its content.
        """
        event_us = F.unix_micros("event_time")
        own_date = F.to_date(F.timestamp_millis(F.least("timestamp_ms", F.lit(LATEST_MS))))  # larger ones overflow
        found = messages.agg(
            F.array_union(F.collect_set("date"), F.collect_set(own_date)).alias("dates"),
            F.array(F.min(event_us), F.max(event_us)).alias("events_us"),
            F.array(F.min("timestamp_ms"), F.max("timestamp_ms")).alias("messages_ms"),
        ).collect()[0]
        files = self._store.files("messages", sorted(day.isoformat() for day in found.dates))
        if not files:
            return None
        first, last = (F.timestamp_micros(F.lit(each)) for each in found.events_us)
        is_of_the_time = F.col("event_time").between(first, last) | F.col("timestamp_ms").between(*found.messages_ms)
        return read_files(self._spark, self._store, "messages", files).where(is_of_the_time)

    def _same_identity(self, messages: DataFrame, moved: DataFrame | None) -> DataFrame | None:
        """Only where chains overlap is anything looked up, and only in the dates of what overlaps."""
        suspects = self._account.suspects(self._summaries)
        if not suspects:
            return None
        suspected = suspected_rows(messages, suspects).persist()
        dates = [row.date.isoformat() for row in suspected.select("date").distinct().collect()]
        files = self._store.files("messages", sorted(dates))
        known = read_files(self._spark, self._store, "messages", files) if files else None
        if known is not None:
            known = known.where(F.col("timestamp_ms").between(*_bounds(suspected)))
        if moved is not None:
            known = moved if known is None else known.unionByName(moved)
        return find_duplicates(suspected, known)

    def _write_messages(self, messages: DataFrame) -> _Staged:
        files = max(1, sum(summary.readings or 0 for summary in self._summaries) // READINGS_PER_FILE)
        folder, written = write_files(self._store, "messages", messages.coalesce(files).sortWithinPartitions(*ORDER))
        return _Staged(folder, written)

    def _write_rollups(self, messages: _Staged, rewritten: list[StoredFile]) -> None:
        """Minutes of dates that stay are added up with what is there; dates that are rewritten are counted anew."""
        anew = {file.date for file in rewritten}
        touched = {path.parent.name.removeprefix(DATE_PREFIX) for path in messages.files}
        there = self._store.files("rollups", sorted({day for day in {*touched, *anew} if day is not None}))
        parts = roll_up(messages.read(self._spark))
        merged = [file for file in there if file.date not in anew]
        if merged:
            parts = merge_rollups(parts.unionByName(read_files(self._spark, self._store, "rollups", merged)))
        _, added = write_files(self._store, "rollups", parts.select(ROLLUPS.fieldNames()).coalesce(1))
        self._changes["rollups"] = Change(added, there)

    def _write_quarantine(self) -> None:
        if any(_has_quarantined(summary) for summary in self._summaries):
            rows = choose_quarantine(self._decoded, self._unwanted_paths).coalesce(1)
            _, added = write_files(self._store, "quarantine", rows.sortWithinPartitions("archive", "record"))
            self._changes["quarantine"] = Change(added)

    def _note_boots(self, messages: _Staged, changed: set[Boot]) -> None:
        """Remember in which dates messages lie that a correction may move one day."""
        if not changed and not any(summary.boots for summary in self._summaries):
            return
        for boot in changed:
            self._account.boot_dates.pop(boot, None)
        marked = messages.read(self._spark).where(F.col("boot").isNotNull()).select("device", "boot", "date").distinct()
        for row in marked.collect():
            self._account.boot_dates.setdefault(Boot(row.device, row.boot), set()).add(row.date.isoformat())

    def _write_small_tables(self) -> None:
        self._changes |= _ledger_changes(self._store, self._account, self._gaps_before)
        duplicates = [replace(each, verdict=DUPLICATE) for each in self._duplicate_archives]
        archives = archive_rows([*self._summaries, *duplicates])
        self._changes["archives"] = Change([_write_small(self._store, "archives", archives)])


def _ledger_changes(store: Store, account: Account, gaps_before: list[Gap]) -> dict[str, Change]:
    """The tables that each commit writes anew: gaps, ledger and logs."""
    rows = ledger_rows(account)
    closed = gap_rows(closed_gaps(gaps_before, account.gaps()), CLOSED)
    rows["gaps"] = [*_closed_before(store), *closed, *rows["gaps"]]
    return {table: Change([_write_small(store, table, rows[table])], store.files(table)) for table in rows}


def _closed_before(store: Store) -> list[dict[str, Any]]:
    files = [store.path("gaps", file) for file in store.files("gaps")]
    return [row for file in files for row in pq.read_table(file, filters=[("state", "=", CLOSED)]).to_pylist()]


def _write_small(store: Store, table: str, rows: list[dict[str, Any]]) -> Path:
    return write_rows(table, rows, store.work(table) / "all.parquet")


def _days(locked: Locked) -> Iterator[str]:
    """The dates of messages that are locked: without their content, their own timestamps are all that is known."""
    first, last = (datetime.fromtimestamp(each / 1000, UTC).date() for each in (locked.first_ms, locked.last_ms))
    return ((first + timedelta(days=day)).isoformat() for day in range((last - first).days + 1))


def _has_quarantined(summary: ArchiveSummary) -> bool:
    return summary.verdict != VERIFIED or any(chain.rejected for chain in summary.chains.values())


def _bounds(suspected: DataFrame) -> tuple[int, int]:
    row = suspected.agg(F.min("timestamp_ms").alias("low"), F.max("timestamp_ms").alias("high")).collect()[0]
    return row.low, row.high


def _readings_by_chain(duplicates: DataFrame | None) -> Counter[ChainName]:
    if duplicates is None:
        return Counter()
    rows = duplicates.groupBy("device", "chain").agg(F.sum("readings").alias("readings")).collect()
    return Counter({ChainName(row.device, row.chain): row.readings for row in rows})
