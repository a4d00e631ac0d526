"""What tables hold, as plain values: times in UTC without a zone, and for JSON nothing that JSON has no word for."""

import base64
import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from pyspark.sql import DataFrame

from ingest.errors import IngestError


def collect_rows(frame: DataFrame) -> list[list[Any]]:
    """All rows. By Arrow, since Spark's own `collect` gives times in the zone of the machine that runs it.

    Raises: IngestError where a value is beyond what Python knows, such as a time after the year 9999.
    """
    columns = frame.toArrow().columns
    try:
        values = [[_without_zone(value) for value in column.to_pylist()] for column in columns]
    except (OverflowError, ValueError) as error:
        raise IngestError(f"a value in the answer cannot be shown: {error}") from None
    return [list(row) for row in zip(*values, strict=True)]


def _without_zone(value: Any) -> Any:
    is_zoned = isinstance(value, datetime) and value.tzinfo is not None
    return value.astimezone(UTC).replace(tzinfo=None) if is_zoned else value


def plain(value: Any) -> Any:
    """The same for JSON. Numbers that are none, and infinite ones, become null."""
    match value:
        case dict():
            return {str(key): plain(each) for key, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
        case bytes() | bytearray():
            return base64.b64encode(value).decode()
        case datetime() | date():
            return _without_zone(value).isoformat()
        case timedelta():
            return value.total_seconds()
        case Decimal():
            return plain(float(value))
        case float() if not math.isfinite(value):
            return None
        case None | bool() | int() | float() | str():
            return value
    return str(value)


def as_json(value: Any, *, indent: int | None = None) -> str:
    return json.dumps(plain(value), indent=indent, allow_nan=False)
