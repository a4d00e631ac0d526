"""Files of the landing area → decoded rows: the one place where Python touches rows."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame

from ingest.archive_rows import DECODED_SCHEMA, DecodeSettings, decode_archive
from ingest.message_files import MessageFiles
from ingest.schemas import DECODED

__all__ = ["decode_archives"]


def decode_archives(files: DataFrame, settings: DecodeSettings, folder: Path) -> DataFrame:
    """One row per thing in quarantine, per archive, and per file of messages written to `folder`; `kind` tells which.

    `files` has the columns of Spark's `binaryFile`.
    """
    wanted = files.select("path", "content", "modificationTime")
    return wanted.mapInArrow(partial(_decode_batches, settings, folder), DECODED)


def _decode_batches(
    settings: DecodeSettings, folder: Path, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    written = MessageFiles(folder)
    learned = {device: dict(keys) for device, keys in settings.learned.items()}
    for batch in batches:
        for path, content, landed_at in zip(*batch.columns, strict=True):
            landed_at_ms = landed_at.value // 1000
            name, data = path.as_py(), content.as_py()
            yield from decode_archive(name, data, landed_at_ms, settings, written.take, learned)
    rows = [{"kind": "file", "file": name} for name in written.finish()]
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=DECODED_SCHEMA)
