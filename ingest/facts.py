"""What the report says, as plain values: every figure is asked of the tables, none of the job's own memory."""

from datetime import datetime
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from ingest.plain_values import collect_rows
from ingest.query import ask, open_views
from ingest.totals import read_totals

MAX_CURVES: Final = 12
MAX_POINTS: Final = 400
MAX_GAPS: Final = 200
MAX_COLUMNS: Final = 400  # of the plot of volume
MAX_DEVICES_SHOWN: Final = 7  # in it by their names, the busiest; the rest are one
HOUR_S: Final = 3600
LATENCY_EDGES_S: Final = (1, 10, 60, 600, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600)

_TOTALS: Final = """
    SELECT count(*) AS readings, count_if(reading = 0) AS messages, count(DISTINCT device) AS devices,
           count(DISTINCT device, chain) AS chains,
           min(event_time) AS first, max(event_time) AS last FROM messages WHERE clock != 'unsynchronised'"""
_VOLUME: Final = f"""
    WITH counted AS (
        SELECT device, timestamp_seconds(floor(unix_seconds(event_time) / :step) * :step) AS hour, count(*) AS readings
        FROM messages WHERE clock != 'unsynchronised' GROUP BY ALL),
    busiest AS (
        SELECT device FROM counted GROUP BY device ORDER BY sum(readings) DESC, device LIMIT {MAX_DEVICES_SHOWN})
    SELECT coalesce(b.device, 'others') AS device, hour, sum(readings) AS readings
    FROM counted c LEFT JOIN busiest b ON b.device = c.device GROUP BY ALL ORDER BY hour, device"""  # noqa: S608
_LATENCY: Final = """
    SELECT percentile_approx(s, 0.5) AS p50_s, percentile_approx(s, 0.9) AS p90_s, percentile_approx(s, 0.99) AS p99_s,
           max(s) AS max_s FROM (SELECT unix_millis(landed_at) / 1000 - unix_millis(event_time) / 1000 AS s
           FROM messages WHERE clock != 'unsynchronised')"""
_DEVICES: Final = """
    SELECT m.device, m.readings, m.first, m.last, coalesce(a.archives, 0) AS archives, coalesce(g.gaps, 0) AS open_gaps
    FROM (SELECT device, count(*) AS readings, min(event_time) AS first, max(event_time) AS last FROM messages
          GROUP BY device) m
    LEFT JOIN (SELECT device, count(DISTINCT archive) AS archives FROM archives GROUP BY device) a
    ON a.device = m.device
    LEFT JOIN (SELECT device, count(*) AS gaps FROM gaps WHERE state = 'open' GROUP BY device) g ON g.device = m.device
    ORDER BY m.device"""
_QUARANTINE: Final = """
    SELECT reason, count(*) AS rows, sum(records) AS records, sum(readings) AS readings FROM quarantine
    GROUP BY reason ORDER BY rows DESC, reason"""
_LEDGER: Final = """
    SELECT l.*, coalesce(m.counted, 0) AS counted FROM ledger l
    LEFT JOIN (SELECT device, chain, count(*) AS counted FROM messages GROUP BY device, chain) m
    ON m.device = l.device AND m.chain = l.chain ORDER BY l.device, l.chain"""
_LOGS: Final = "SELECT * FROM logs ORDER BY complete, device, log, lane"
_GAPS: Final = f"""
    SELECT * FROM gaps WHERE state = 'open' ORDER BY device, chain, before_timestamp_ms LIMIT {MAX_GAPS}"""  # noqa: S608
_SENSORS: Final = f"""
    SELECT device, sensor, quantity, unit, sum(count) AS readings, min(minute) AS first, max(minute) AS last
    FROM rollups GROUP BY ALL ORDER BY readings DESC, device, sensor, quantity LIMIT {MAX_CURVES}"""  # noqa: S608


def collect_facts(spark: SparkSession, tables: Path) -> dict[str, Any]:
    """Everything that the page shows and `--json` prints."""
    return ask(tables, lambda: _collect(spark, tables))


def _collect(spark: SparkSession, tables: Path) -> dict[str, Any]:
    open_views(spark, tables)
    ledger = _rows(spark, _LEDGER)
    accounted = read_totals(tables)
    totals = {**_rows(spark, _TOTALS)[0], **accounted.as_dict()}
    step_s = _step_s(totals["first"], totals["last"], MAX_COLUMNS, HOUR_S)
    return {
        "totals": totals,
        "devices": _rows(spark, _DEVICES),
        "volume": _rows(spark, _VOLUME, step=step_s),
        "volume_step_s": step_s,
        "latency": _rows(spark, _LATENCY)[0],
        "latency_histogram": _latency_histogram(spark),
        "quarantine": _rows(spark, _QUARANTINE),
        "gaps": _rows(spark, _GAPS),
        "ledger": ledger,
        "logs": _rows(spark, _LOGS),
        "curves": [_curve(spark, sensor) for sensor in _rows(spark, _SENSORS)],
        "balanced": accounted.complete and all(row["counted"] == row["ingested"] for row in ledger),
    }


def _rows(spark: SparkSession, sql: str, **arguments: Any) -> list[dict[str, Any]]:
    found = spark.sql(sql, args=arguments or None)
    return [dict(zip(found.columns, row, strict=True)) for row in collect_rows(found)]


def _latency_histogram(spark: SparkSession) -> list[dict[str, Any]]:
    """How many readings took up to each of the edges, from the event to the collector."""
    seconds = "unix_millis(landed_at) / 1000 - unix_millis(event_time) / 1000"
    counts = ", ".join(f"count_if({seconds} <= {edge}) AS up_to_{edge}" for edge in LATENCY_EDGES_S)
    row = _rows(spark, f"SELECT {counts}, count(*) AS all FROM messages WHERE clock != 'unsynchronised'")[0]  # noqa: S608
    reached = [0, *(row[f"up_to_{edge}"] for edge in LATENCY_EDGES_S), row["all"]]
    edges: list[int | None] = [*LATENCY_EDGES_S, None]
    return [
        {"up_to_s": edge, "readings": high - low}
        for edge, low, high in zip(edges, reached[:-1], reached[1:], strict=True)
    ]


def _step_s(first: datetime | None, last: datetime | None, most: int, unit_s: int) -> int:
    """The smallest step, in whole units, of which no more than `most` lie between the two."""
    spread_s = 0.0 if first is None or last is None else (last - first).total_seconds()
    return (int(spread_s / most) // unit_s + 1) * unit_s


def _curve(spark: SparkSession, sensor: dict[str, Any]) -> dict[str, Any]:
    """The readings of one sensor, joined into steps so that there are not more points than a plot can show."""
    step_s = _step_s(sensor["first"], sensor["last"], MAX_POINTS, 60)
    points = _rows(
        spark,
        """SELECT timestamp_seconds(floor(unix_seconds(minute) / :step) * :step) AS at,
           min(min) AS min, max(max) AS max, sum(sum) / sum(count) AS mean FROM rollups
           WHERE device = :device AND sensor <=> :sensor AND quantity <=> :quantity AND unit <=> :unit
           GROUP BY ALL ORDER BY at""",
        step=step_s,
        **{name: sensor[name] for name in ("device", "sensor", "quantity", "unit")},
    )
    return {**sensor, "step_s": step_s, "points": points}
