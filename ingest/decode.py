"""Files of the landing area → decoded rows: the one place where Python touches rows."""

import gc
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from ingest.archive_rows import DECODED_SCHEMA, DecodeSettings, decode_archive
from ingest.message_files import MessageFiles
from ingest.schemas import DECODED

LOCAL: Final = "file:"  # how Spark begins the path of a file that every worker sees under the same name


def decode_archives(files: DataFrame, settings: DecodeSettings, folder: Path) -> DataFrame:
    """One row per thing in quarantine, per archive, and per file of messages written to `folder`; `kind` tells which.

    `files` has the columns of Spark's `binaryFile`, of which the content is not asked for: a worker reads an archive
    itself, which saves handing all of its bytes from process to process.
    """
    wanted = files.select("path", "modificationTime")
    return wanted.mapInArrow(partial(_decode_batches, settings, folder), DECODED)


def _decode_batches(
    settings: DecodeSettings, folder: Path, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    _spare_what_is_imported()
    written = MessageFiles(folder)
    learned = {device: dict(keys) for device, keys in settings.learned.items()}
    for batch in batches:
        for path, landed_at in zip(*batch.columns, strict=True):
            name, landed_at_ms = path.as_py(), landed_at.value // 1000
            data = Path(name.removeprefix(LOCAL)).read_bytes()
            yield from decode_archive(name, data, landed_at_ms, settings, written.take, learned)
    rows = [{"kind": "file", "file": name} for name in written.finish()]
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=DECODED_SCHEMA)


@cache
def _spare_what_is_imported() -> None:
    """Spark searches its workers for cycles after every task, and through all modules that takes 40 ms."""
    gc.freeze()
