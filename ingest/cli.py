"""`headgate ingest`: make tables of the landing area, look at them, and keep them tidy."""

import argparse
import json
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ingest.errors import IngestError
from protocol.errors import HeadgateError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ingest.archive_rows import DecodeSettings
    from ingest.job import JobSettings

DEFAULT_PAGE = Path("report.html")
DESCRIPTION = "Make tables of the archives in a landing area, each message once and every loss accounted for."


def main(argv: Sequence[str]) -> int:
    """For `spark-submit ingest/job.py`, where there is no `headgate` command around it."""
    parser = argparse.ArgumentParser(prog="headgate ingest", description=DESCRIPTION)
    add_arguments(parser)
    try:
        return run(parser.parse_args(argv))
    except HeadgateError as error:
        print(f"headgate: {error}", file=sys.stderr)
        return error.exit_code


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_run(commands.add_parser("run", help="ingest what is in the landing area"))
    _add_report(commands.add_parser("report", help="write one HTML page about the tables"))
    _add_query(commands.add_parser("query", help="ask the tables a question in SQL"))
    _add_gaps(commands.add_parser("gaps", help="list the holes in the chains"))
    _add_compact(commands.add_parser("compact", help="join small files of the tables"))


def run(arguments: argparse.Namespace) -> int:
    if arguments.action != "run" and not arguments.tables.is_dir():
        raise FileNotFoundError(2, "no such folder of tables", str(arguments.tables))
    return int(arguments.act(arguments))


def _add_run(parser: argparse.ArgumentParser) -> None:
    _add_tables(parser)
    parser.add_argument("--landing", type=Path, required=True, metavar="DIR", help="where the collector puts archives")
    parser.add_argument("--format", choices=["parquet", "delta"], help="of new tables (default: parquet)")
    parser.add_argument("--every", type=float, metavar="SECONDS", help="go on, and look for new archives so often")
    parser.add_argument("--again", action="store_true", help="look at every file again; what is known stays as it is")
    parser.add_argument(
        "--devices", type=Path, metavar="DIR", help="the collector's list of devices; others are refused"
    )
    parser.add_argument(
        "--device", action="append", metavar="ADDRESS", help="a device to take, besides --devices; may be given again"
    )
    parser.add_argument("--group-keys", type=Path, metavar="FILE", help="keys of encrypted streams, in JSON")
    parser.add_argument(
        "--sealing-key", type=Path, metavar="FILE", help="the collector's key that opens sealed archives"
    )
    parser.add_argument(
        "--receipts", type=Path, metavar="DIR", help="the collector's receipts: who brought what is sealed"
    )
    parser.add_argument(
        "--batch-megabytes", type=int, default=64, metavar="N", help="of archives per commit (default: %(default)s)"
    )
    parser.add_argument("--batch-archives", type=int, metavar="N", help="per commit, whatever their size")
    parser.add_argument("--report", type=Path, metavar="FILE", help="at the end, write one HTML page about the tables")
    parser.add_argument("--json", action="store_true", help="at the end, print the figures of the report")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    _add_spark(parser)
    parser.set_defaults(act=_run_job)


def _add_report(parser: argparse.ArgumentParser) -> None:
    _add_tables(parser)
    parser.add_argument("--output", "-o", type=Path, metavar="FILE", help="the page (default: report.html)")
    parser.add_argument("--json", action="store_true", help="print the figures; write a page only where -o says so")
    _add_spark(parser)
    parser.set_defaults(act=_report)


def _add_query(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sql", metavar="SQL", help="over messages, quarantine, gaps, rollups, ledger and archives")
    _add_tables(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object per row")
    parser.add_argument("--limit", type=int, default=1000, metavar="N", help="rows to print (default: 1000)")
    _add_spark(parser)
    parser.set_defaults(act=_query)


def _add_gaps(parser: argparse.ArgumentParser) -> None:
    _add_tables(parser)
    parser.add_argument("--request", action="store_true", help="print the ranges to resend, one JSON object per line")
    parser.add_argument("--all", action="store_true", help="also gaps that are closed")
    parser.set_defaults(act=_gaps)


def _add_compact(parser: argparse.ArgumentParser) -> None:
    _add_tables(parser)
    parser.add_argument(
        "--min-files", type=int, default=2, metavar="N", help="leave dates with fewer alone (default: 2)"
    )
    _add_spark(parser)
    parser.set_defaults(act=_compact)


def _add_tables(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tables", type=Path, required=True, metavar="DIR", help="where the tables are")


def _add_spark(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--master", metavar="URL", help="of a Spark cluster (default: this machine, all cores)")
    parser.add_argument(
        "--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting for Spark; may be given again"
    )


def _spark_options(arguments: argparse.Namespace) -> dict[str, str]:
    for setting in arguments.conf:
        if "=" not in setting:
            raise IngestError(f"--conf {setting}: a name, =, and a value are expected")
    return dict(setting.split("=", 1) for setting in arguments.conf)


@contextmanager
def _spark(arguments: argparse.Namespace, options: Mapping[str, str] | None = None) -> "Iterator[SparkSession]":
    from ingest.session import open_session

    quiet = {"spark.ui.showConsoleProgress": "false"}
    spark = open_session(arguments.master, {**quiet, **(options or {}), **_spark_options(arguments)})
    try:
        yield spark
    finally:
        spark.stop()


def _run_job(arguments: argparse.Namespace) -> int:
    if not arguments.landing.is_dir():
        raise FileNotFoundError(2, "no such landing area", str(arguments.landing))
    if arguments.receipts is not None and not arguments.receipts.is_dir():
        raise FileNotFoundError(2, "no such folder of receipts", str(arguments.receipts))
    settings = _job_settings(arguments)
    from ingest.job import run_job
    from ingest.progress import Progress
    from ingest.session import RUN_OPTIONS
    from ingest.store import Store

    Store(settings.tables, settings.table_format).close()  # refuse now what would be refused once Spark has started
    stopping = threading.Event()
    with _spark(arguments, RUN_OPTIONS) as spark:
        if settings.every_s is not None:  # a run that would end by itself can as well be killed
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: stopping.set())
        run_job(spark, settings, Progress(quiet=arguments.quiet), stopping)
        is_wanted = arguments.report is not None or arguments.json
        return _write_report(spark, settings.tables, arguments.report, arguments.json) if is_wanted else 0


def _job_settings(arguments: argparse.Namespace) -> "JobSettings":
    from ingest.job import JobSettings

    return JobSettings(
        landing=arguments.landing.resolve(),
        tables=arguments.tables.resolve(),
        table_format=arguments.format,
        decode=_decode_settings(arguments),
        batch_bytes=arguments.batch_megabytes * 1024 * 1024,
        batch_archives=arguments.batch_archives,
        every_s=arguments.every,
        again=arguments.again,
    )


def _decode_settings(arguments: argparse.Namespace) -> "DecodeSettings":
    from ingest.archive_rows import DecodeSettings
    from ingest.collector.keys import load_sealing_key
    from ingest.keyring import read_group_keys

    return DecodeSettings(
        devices=_devices(arguments.devices, arguments.device),
        group_keys=read_group_keys(arguments.group_keys) if arguments.group_keys else {},
        unsealing_key=bytes(load_sealing_key(arguments.sealing_key)) if arguments.sealing_key else None,
        receipts=arguments.receipts.resolve() if arguments.receipts else None,
    )


def _devices(folder: Path | None, addresses: list[str] | None) -> frozenset[str] | None:
    """Revoked devices too: what the collector took from them while they were trusted stays true."""
    if folder is None and addresses is None:
        return None
    enrolled = [] if folder is None else [path.stem for path in folder.iterdir() if path.suffix == ".json"]
    return frozenset(address.lower() for address in [*enrolled, *(addresses or [])])


def _report(arguments: argparse.Namespace) -> int:
    page = arguments.output if arguments.output is not None or arguments.json else DEFAULT_PAGE
    with _spark(arguments) as spark:
        return _write_report(spark, arguments.tables.resolve(), page, arguments.json)


def _write_report(spark: "SparkSession", tables: Path, page: Path | None, as_json: bool) -> int:
    """The page, the figures on stdout, or both. The exit code says whether the ledger balances."""
    from ingest.facts import collect_facts
    from ingest.report import render_page

    facts = collect_facts(spark, tables)
    if page is not None:
        page.write_text(render_page(facts), encoding="utf-8")
        print(page, file=sys.stderr if as_json else sys.stdout)
    if as_json:
        print(json.dumps(facts, indent=2, default=str))
    return 0 if facts["balanced"] else 1


def _query(arguments: argparse.Namespace) -> int:
    from ingest.query import run_query

    with _spark(arguments) as spark:
        rows = run_query(spark, arguments.tables.resolve(), arguments.sql, arguments.limit)
    print("\n".join(rows.as_json_lines() if arguments.json else rows.as_table()))
    return 0


def _gaps(arguments: argparse.Namespace) -> int:
    from ingest.resend import describe_gaps, read_gaps, resend_requests

    gaps = read_gaps(arguments.tables.resolve(), also_closed=arguments.all)
    if arguments.request:
        print("\n".join(json.dumps(request) for request in resend_requests(arguments.tables.resolve(), gaps)))
    else:
        print("\n".join(describe_gaps(gaps)))
    return 0


def _compact(arguments: argparse.Namespace) -> int:
    from ingest.compact import compact_tables

    with _spark(arguments) as spark:
        before, after = compact_tables(spark, arguments.tables.resolve(), arguments.min_files)
    print(f"{before} files became {after}")
    return 0
