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
from runtime.local_paths import local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ingest.archive_rows import DecodeSettings
    from ingest.job import JobSettings

DEFAULT_PAGE = Path("report.html")
LONGEST_EVERY_S = 24 * 3600
IO_ERROR = 74
DESCRIPTION = "Load the archives of a landing area into tables: every message once, every loss accounted for."


def main(argv: Sequence[str]) -> int:
    """For `spark-submit ingest/job.py`, where there is no `headgate` command around it."""
    parser = argparse.ArgumentParser(prog="headgate ingest", description=DESCRIPTION)
    add_arguments(parser)
    try:
        return run(parser.parse_args(argv))
    except HeadgateError as error:
        print(f"headgate: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"headgate: {error}", file=sys.stderr)
        return IO_ERROR


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_run(commands.add_parser("run", help="load the archives of the landing area into the tables"))
    _add_report(commands.add_parser("report", help="write an HTML report on the tables"))
    _add_query(commands.add_parser("query", help="query the tables with SQL"))
    _add_gaps(commands.add_parser("gaps", help="list missing messages (gaps in the chains)"))
    _add_compact(commands.add_parser("compact", help="merge small files of the tables"))


def run(arguments: argparse.Namespace) -> int:
    if arguments.action != "run":
        _check_tables(arguments.tables)
    return int(arguments.act(arguments))


def _check_tables(tables: Path) -> None:
    """Raises: FileNotFoundError; IngestError for a folder that no run has ever written to."""
    from ingest.store import files_of

    if not tables.is_dir():
        raise FileNotFoundError(2, "no such folder of tables", str(tables))
    files_of(tables, "ledger")


def _add_run(parser: argparse.ArgumentParser) -> None:
    _add_tables(parser)
    parser.add_argument(
        "--landing", type=local_path, required=True, metavar="DIR", help="landing area of the collector"
    )
    parser.add_argument("--format", choices=["parquet", "delta"], help="format of new tables (default: parquet)")
    parser.add_argument(
        "--every", type=_seconds, metavar="SECONDS", help="keep running, and check for new archives every SECONDS"
    )
    parser.add_argument(
        "--again", action="store_true", help="process every archive again; messages already loaded are not duplicated"
    )
    parser.add_argument(
        "--devices",
        type=local_path,
        metavar="DIR",
        help="device list of the collector; archives of other devices are refused",
    )
    parser.add_argument(
        "--device", action="append", metavar="ADDRESS", help="also accept this device; may be given several times"
    )
    parser.add_argument("--group-keys", type=local_path, metavar="FILE", help="keys of encrypted streams, in JSON")
    parser.add_argument(
        "--decryption-key", type=local_path, metavar="FILE", help="private key of the collector, to decrypt archives"
    )
    parser.add_argument(
        "--receipts",
        type=local_path,
        metavar="DIR",
        help="receipts of the collector, which name the devices of encrypted archives",
    )
    parser.add_argument(
        "--batch-megabytes",
        type=_positive,
        default=64,
        metavar="N",
        help="megabytes of archives per commit (default: %(default)s)",
    )
    parser.add_argument("--batch-archives", type=_positive, metavar="N", help="most archives per commit")
    parser.add_argument(
        "--report", type=local_path, metavar="FILE", help="at the end, write an HTML report on the tables"
    )
    parser.add_argument("--json", action="store_true", help="finally print the figures of the report as JSON")
    parser.add_argument("--quiet", action="store_true", help="do not show progress")
    _add_spark(parser)
    parser.set_defaults(act=_run_job)


def _add_report(parser: argparse.ArgumentParser) -> None:
    _add_tables(parser)
    parser.add_argument(
        "--output", "-o", type=local_path, metavar="FILE", help="HTML file to write (default: report.html)"
    )
    parser.add_argument(
        "--json", action="store_true", help="print the figures as JSON; write the HTML file only with -o"
    )
    _add_spark(parser)
    parser.set_defaults(act=_report)


def _add_query(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sql", metavar="SQL", help="query on the tables messages, quarantine, gaps, rollups, ledger and archives"
    )
    _add_tables(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object per row")
    parser.add_argument("--limit", type=_positive, default=1000, metavar="N", help="rows to print (default: 1000)")
    _add_spark(parser)
    parser.set_defaults(act=_query)


def _add_gaps(parser: argparse.ArgumentParser) -> None:
    _add_tables(parser)
    parser.add_argument("--request", action="store_true", help="print the ranges to resend, one JSON object per line")
    parser.add_argument("--all", action="store_true", help="also list gaps that were filled later")
    parser.set_defaults(act=_gaps)


def _add_compact(parser: argparse.ArgumentParser) -> None:
    _add_tables(parser)
    parser.add_argument(
        "--min-files", type=_positive, default=2, metavar="N", help="skip dates with fewer files (default: 2)"
    )
    _add_spark(parser)
    parser.set_defaults(act=_compact)


def _add_tables(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tables", type=local_path, required=True, metavar="DIR", help="directory of the tables")


def _add_spark(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--master", metavar="URL", help="URL of the Spark cluster (default: local, all cores)")
    parser.add_argument(
        "--conf", action="append", default=[], metavar="NAME=VALUE", help="Spark setting; may be given several times"
    )
    parser.add_argument(
        "--spark-log", type=local_path, metavar="FILE", help="write Spark's log to this file (default: discard)"
    )


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def _seconds(text: str) -> float:
    if not 0 <= (number := float(text)) <= LONGEST_EVERY_S:
        raise argparse.ArgumentTypeError(f"0 to {LONGEST_EVERY_S}")
    return number


def _spark_options(arguments: argparse.Namespace) -> dict[str, str]:
    for setting in arguments.conf:
        if "=" not in setting:
            raise IngestError(f"--conf {setting}: a name, =, and a value are expected")
    return dict(setting.split("=", 1) for setting in arguments.conf)


@contextmanager
def _spark(arguments: argparse.Namespace, options: Mapping[str, str] | None = None) -> "Iterator[SparkSession]":
    given = _spark_options(arguments)
    from ingest.spark_command import spark_for_command

    quiet = {"spark.ui.showConsoleProgress": "false"}
    with spark_for_command(arguments.master, {**quiet, **(options or {}), **given}, arguments.spark_log) as spark:
        yield spark


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
        if arguments.report is not None or arguments.json:
            return _write_report(spark, settings.tables, arguments.report, arguments.json)
    return _judge(settings.tables, quiet=arguments.quiet)


def _judge(tables: Path, *, quiet: bool) -> int:
    """Print the totals. The exit code says whether everything is accounted for."""
    from ingest.totals import read_totals

    totals = read_totals(tables)
    if not (quiet and totals.complete):
        print(totals.as_line(), file=sys.stderr)
    return 0 if totals.complete else 1


def _job_settings(arguments: argparse.Namespace) -> "JobSettings":
    from ingest.job import JobSettings

    if arguments.devices is not None and not arguments.devices.is_dir():
        raise FileNotFoundError(2, "no such folder of devices", str(arguments.devices))
    return JobSettings(
        landing=arguments.landing.resolve(),
        tables=arguments.tables.resolve(),
        table_format=arguments.format,
        decode=_decode_settings(arguments),
        batch_bytes=arguments.batch_megabytes * 1024 * 1024,
        batch_archives=arguments.batch_archives,
        devices_folder=arguments.devices and arguments.devices.resolve(),
        every_s=arguments.every,
        again=arguments.again,
    )


def _decode_settings(arguments: argparse.Namespace) -> "DecodeSettings":
    from ingest.archive_rows import DecodeSettings
    from ingest.collector.keys import load_decryption_key
    from ingest.keyring import read_group_keys

    return DecodeSettings(
        devices=_devices(arguments.device),
        group_keys=read_group_keys(arguments.group_keys) if arguments.group_keys else {},
        decryption_key=bytes(load_decryption_key(arguments.decryption_key)) if arguments.decryption_key else None,
        receipts=arguments.receipts.resolve() if arguments.receipts else None,
    )


def _devices(addresses: list[str] | None) -> frozenset[str] | None:
    """Raises: ConfigError for what is no address."""
    from ingest.collector.devices import parse_address

    return None if addresses is None else frozenset(f"0x{parse_address(address).hex()}" for address in addresses)


def _report(arguments: argparse.Namespace) -> int:
    page = arguments.output if arguments.output is not None or arguments.json else DEFAULT_PAGE
    with _spark(arguments) as spark:
        return _write_report(spark, arguments.tables.resolve(), page, arguments.json)


def _write_report(spark: "SparkSession", tables: Path, page: Path | None, as_json: bool) -> int:
    """The page, the figures on stdout, or both. The exit code says whether everything is accounted for."""
    from ingest import plain_values
    from ingest.facts import collect_facts
    from ingest.report import render_page

    facts = collect_facts(spark, tables)
    if page is not None:
        page.write_text(render_page(facts), encoding="utf-8")
        print(page, file=sys.stderr if as_json else sys.stdout)
    if as_json:
        print(plain_values.as_json(facts, indent=2))
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
