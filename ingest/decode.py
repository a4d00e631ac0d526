"""Files of the landing area → decoded rows: the one place where Python touches rows."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from ingest.archive_rows import DecodeSettings, decode_archive
from ingest.schemas import DECODED

__all__ = ["decode_archives"]

TIME_ZONE: Final = "UTC"


def decode_archives(files: DataFrame, settings: DecodeSettings) -> DataFrame:
    """One row per message, per thing in quarantine and per archive; `kind` tells which.

    `files` has the columns of Spark's `binaryFile`.
    """
    wanted = files.select("path", "content", "modificationTime")
    return wanted.mapInArrow(_decoder(settings), DECODED)


def _decoder(settings: DecodeSettings) -> "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]":
    def decode_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = arrow_schema()
        for batch in batches:
            for path, content, landed_at in zip(*batch.columns, strict=True):
                landed_at_ms = landed_at.value // 1000
                yield from decode_archive(path.as_py(), content.as_py(), landed_at_ms, settings, schema)

    return decode_batches


@cache
def arrow_schema() -> pa.Schema:
    return to_arrow_schema(DECODED, timezone=TIME_ZONE)
