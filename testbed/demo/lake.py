"""Makes the tables, the ledger and the report of the demo, with Spark; without Java, only the ledger.

Spark runs in its own process (`python -m testbed.demo.lake LANDING TABLES REPORT` prints ledger and totals), so that it
can be killed at once and its output goes to a log.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ingest.errors import NoJava
from ingest.java import find_java_home
from testbed.errors import BenchError
from testbed.oracle.ledger import make_ledger

if TYPE_CHECKING:
    from ingest.totals import Totals

MAX_SHOWN_CHARACTERS: Final = 2000
LITTLE_DATA: Final = {
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
COLUMNS: Final = ("device", "stream", "produced", "archived", "ingested", "duplicates", "quarantined", "lost")


def why_no_spark() -> str:
    """The reason why Spark cannot run here; empty if it can."""
    try:
        find_java_home()
    except NoJava as error:
        return str(error)
    return ""


class Result(NamedTuple):
    """What the ingest says, in readings."""

    chains: list[dict[str, Any]]  # the rows of the ledger
    totals: "Totals"


async def ingest_with_spark(landing: Path, tables: Path, report: Path, log: Path) -> Result:
    """Make the tables and write the report. Raises: BenchError."""
    command = [sys.executable, "-m", "testbed.demo.lake", str(landing), str(tables), str(report)]
    with log.open("wb") as output_file:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=output_file, process_group=0
        )
    try:
        output, _ = await process.communicate()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # Java, too
        await process.wait()
    if process.returncode != 0:
        raise BenchError(f"Spark failed: {_end_of(log)}")
    from ingest.totals import Totals

    chains, totals = json.loads(output)
    return Result(chains, Totals(**totals))


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-MAX_SHOWN_CHARACTERS:]


def ingest_without_spark(landing: Path, archives: Sequence[Path]) -> Result:
    """Verifies every signature and chain by the code that Spark runs, but makes no tables."""
    ledger = make_ledger(archives, {}, landing)
    return Result(ledger.chains, ledger.totals)


def _ingest(landing: Path, tables: Path, report: Path) -> Result:
    from ingest.facts import collect_facts
    from ingest.job import JobSettings, run_job
    from ingest.progress import Progress
    from ingest.report import render_page
    from ingest.session import open_session
    from ingest.totals import read_totals

    spark = open_session("local[*]", LITTLE_DATA)
    try:
        run_job(spark, JobSettings(landing=landing, tables=tables), Progress(quiet=True))
        facts = collect_facts(spark, tables)
    finally:
        spark.stop()
    report.write_text(render_page(facts), encoding="utf-8")
    return Result(facts["ledger"], read_totals(tables))


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Counts of readings."""

    lines: tuple[str, ...]  # a table, by stream
    totals: "Totals"
    duplicated: int  # in the tables more than once

    @property
    def lost(self) -> int:
        return self.totals.lost_explained + self.totals.lost_unexplained

    @property
    def is_settled(self) -> bool:
        totals = self.totals
        return totals.complete and totals.ingested > 0 and not (self.lost or self.duplicated or totals.quarantined)

    def as_lines(self) -> tuple[str, str]:
        totals = self.totals
        waiting = f", still on the devices {totals.on_device}" if totals.on_device else ""
        produced = f"produced {totals.produced}, ingested {totals.ingested}{waiting}, missing {totals.missing}"
        return produced, f"lost {self.lost}, duplicated {self.duplicated}"


def account_for(result: Result, names: Mapping[str, str]) -> Account:
    """Sum the rows of the ledger by stream; `names` are the names of the devices, by address."""
    chains = result.chains
    rows: dict[tuple[str, str], list[int]] = {}
    for chain in chains:
        stream = str(chain["chain"]).partition("#")[0].rpartition("/")[2]
        row = rows.setdefault((names.get(chain["device"], chain["device"]), stream), [0] * 6)
        lost = chain["lost_explained"] + chain["lost_unexplained"]
        figures = ("produced", "archived", "ingested", "duplicate", "quarantined")
        for index, figure in enumerate([*(chain[name] for name in figures), lost]):
            row[index] += figure
    sums = [sum(column) for column in zip(*rows.values(), strict=True)] or [0] * 6
    return Account(
        lines=_table([*([*key, *map(str, row)] for key, row in sorted(rows.items())), ["all", "", *map(str, sums)]]),
        totals=result.totals,
        duplicated=sum(chain.get("counted", chain["ingested"]) - chain["ingested"] for chain in chains),
    )


def _table(rows: list[list[str]]) -> tuple[str, ...]:
    widths = [max(map(len, column)) for column in zip(COLUMNS, *rows, strict=True)]
    lines = ["  ".join(_cells(row, widths)).rstrip() for row in [list(COLUMNS), *rows]]
    rule = "─" * max(map(len, lines))
    return (lines[0], rule, *lines[1:-1], rule, lines[-1])


def _cells(row: list[str], widths: list[int]) -> list[str]:
    """Names to the left, figures to the right."""
    return [
        cell.ljust(width) if index < 2 else cell.rjust(width)
        for index, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]


if __name__ == "__main__":
    found = _ingest(*map(Path, sys.argv[1:]))
    print(json.dumps([found.chains, found.totals.as_dict()], default=str))
