"""Readings → readings at their true time, each message once. Pure steps: a DataFrame in, a DataFrame out.

A table of messages has one row per reading, and all rows of a message stand at one place. Whether a message is a
duplicate is decided once, by the row of its first reading; then all of its rows are dropped or none.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from ingest.account import Boot, Suspect
from ingest.decoded import EARLIEST_MS, LATEST_MS
from ingest.schemas import MESSAGES, QUARANTINE
from ingest.summary import Correction

IDENTITY: Final = ("device", "stream_id", "stream_partition", "msg_chain_id", "timestamp_ms", "sequence")
SIGNED_TEXT: Final = ("signed_digest",)
PLACE: Final = ("archive", "record")  # of a message
ROW: Final = (*PLACE, "reading")
STRETCHES: Final = "device string, chain string, first_ms long, last_ms long"


def drop_copies(messages: DataFrame) -> DataFrame:
    """Each reading of an archive once, where its file lay in the landing area twice."""
    return messages.dropDuplicates(list(ROW)).select(MESSAGES.fieldNames())


def one_row_each(messages: DataFrame) -> DataFrame:
    """Each message by the row of its first reading."""
    return messages.where(F.col("reading") == 0)


def choose_quarantine(decoded: DataFrame, unwanted_paths: list[str]) -> DataFrame:
    """What is in quarantine among decoded rows, without what files say that are the copy of another."""
    is_quarantined = F.col("kind") == "quarantine"
    is_wanted = ~F.col("path").isin(unwanted_paths) if unwanted_paths else F.lit(True)
    return decoded.where(is_quarantined & is_wanted).select(QUARANTINE.fieldNames())


def _date_of(column: str) -> Column:
    return F.to_date(column)


def apply_corrections(messages: DataFrame, corrections: dict[Boot, Correction]) -> DataFrame:
    """The same readings, those of a boot with a known correction at their true time, unless that is out of range."""
    if not corrections:
        return messages
    true_ms = F.col("monotonic_ms") + F.create_map(*_offsets(corrections))[F.concat("device", "boot")]
    is_corrected = F.coalesce((true_ms >= EARLIEST_MS) & (true_ms < LATEST_MS), F.lit(False))
    event_time = F.timestamp_millis(true_ms)
    corrected = messages.withColumns(
        {
            "event_time": F.when(is_corrected, event_time).otherwise(F.col("event_time")),
            "clock": F.when(is_corrected, F.lit("corrected")).otherwise(F.col("clock")),
        }
    )
    return corrected.withColumn("date", _date_of("event_time")).select(MESSAGES.fieldNames())


def _offsets(corrections: dict[Boot, Correction]) -> list[Column]:
    pairs = ((boot.device + boot.boot, each.offset_ms) for boot, each in sorted(corrections.items()))
    return [F.lit(value) for pair in pairs for value in pair]


def opened_rows(decoded: DataFrame, there: DataFrame) -> DataFrame:
    """Of messages that were decoded again, the readings of those that stand locked in the table and are open now."""
    is_opened = F.col("content_state") == "decrypted"
    locked = there.where(F.col("content_state") == "locked").select(*PLACE)
    return decoded.where(is_opened).join(locked, on=list(PLACE), how="left_semi").select(MESSAGES.fieldNames())


def rows_of_boots(messages: DataFrame, boots: Iterable[Boot]) -> DataFrame:
    """The readings that were made in one of these boots."""
    names = [boot.device + boot.boot for boot in sorted(boots)]
    return messages.where(F.concat("device", "boot").isin(names)).select(MESSAGES.fieldNames())


def rows_but(messages: DataFrame, others: DataFrame) -> DataFrame:
    """The readings that are not among the others; a message may have some in both."""
    return messages.join(others.select(*ROW), on=list(ROW), how="left_anti").select(MESSAGES.fieldNames())


def suspected_rows(messages: DataFrame, suspects: list[Suspect]) -> DataFrame:
    """Identity, place, chain and number of readings of the messages in these stretches of their chains."""
    stretches = messages.sparkSession.createDataFrame(suspects, STRETCHES)
    keys = one_row_each(messages).select(*IDENTITY, *PLACE, "chain", "readings", "date").alias("row")
    in_chain = (F.col("row.device") == F.col("in.device")) & (F.col("row.chain") == F.col("in.chain"))
    in_stretch = F.col("row.timestamp_ms").between(F.col("in.first_ms"), F.col("in.last_ms"))
    found = keys.join(F.broadcast(stretches.alias("in")), on=in_chain & in_stretch, how="left_semi")
    return found.select(*IDENTITY, *PLACE, "chain", "readings", "date")


def repeated_texts(messages: DataFrame, known: DataFrame | None) -> DataFrame:
    """The digests of signed texts that occur more than once in the messages, or in them and in `known`.

    A device signs each text once, so all messages with one text are one message, whatever fields the text is cut into:
    it has no separators (docs/security.md). The signature itself is no such key, since it holds with -s and the other v
    too; nor is the reading's hash, which a message does not show that is locked or of another type.
    """
    texts = one_row_each(messages).select(*SIGNED_TEXT)
    if known is not None:
        texts = texts.unionByName(one_row_each(known).select(*SIGNED_TEXT))
    return texts.groupBy(*SIGNED_TEXT).count().where(F.col("count") > 1).select(*SIGNED_TEXT)


def find_duplicates(suspected: DataFrame, known: DataFrame | None, key: Sequence[str] = IDENTITY) -> DataFrame:
    """Of the suspected messages, those whose key is in `known` already, and all but the first of those that share one.

    `suspected` has one row per message.
    """
    first_place_first = Window.partitionBy(*key).orderBy(*PLACE)
    numbered = suspected.withColumn("copy", F.row_number().over(first_place_first))
    is_copy = F.col("copy") > 1
    if known is None:
        return numbered.where(is_copy).select(*PLACE, "device", "chain", "readings")
    there = known.select(*key).distinct().withColumn("is_known", F.lit(True))
    judged = numbered.join(there, on=list(key), how="left")
    return judged.where(is_copy | F.col("is_known").isNotNull()).select(*PLACE, "device", "chain", "readings")


def drop_duplicates(messages: DataFrame, duplicates: DataFrame) -> DataFrame:
    """The readings of all messages but those that stand at a duplicate's place."""
    places = F.broadcast(duplicates.select(*PLACE).distinct())
    return messages.join(places, on=list(PLACE), how="left_anti").select(MESSAGES.fieldNames())
