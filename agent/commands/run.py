"""`headgate run`: the agent itself. It begins with all that `check` does."""

import argparse
import asyncio
import json
import logging
import math
import sys

from agent.clock import SystemClock
from agent.commands.check import check_files
from agent.commands.config_argument import add_config_argument, load_named_config
from agent.config import Config
from agent.errors import ConfigError, StorageError
from agent.exit_codes import ExitCode
from agent.logs import set_up_logs
from agent.memory import keep_memory_tight
from agent.pipeline import Pipeline
from agent.service import Service, open_keys
from drivers import DeviceChange, attend

DESCRIPTION = "Read the sensors, keep what they say, publish and archive it, until told to stop."
DEFAULT_ONCE_S = 5.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_argument(parser)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--once", action="store_true", help="read for a few seconds, publish all there is, and end")
    how.add_argument(
        "--dry-run", action="store_true", help="read for a few seconds and print; keep and publish nothing"
    )
    parser.add_argument(
        "--seconds",
        type=_span,
        default=DEFAULT_ONCE_S,
        metavar="S",
        help="how long to read with --once or --dry-run (default: %(default)g)",
    )


def _span(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a time above 0 s")
    return seconds


def run(arguments: argparse.Namespace) -> int:
    keep_memory_tight()
    config = load_named_config(arguments)
    set_up_logs(config.log)
    if arguments.dry_run:
        asyncio.run(_print_readings(config, arguments.seconds))
        return ExitCode.OK
    check_files(config)
    try:
        asyncio.run(_run(config, arguments.seconds if arguments.once else None))
    except* (ConfigError, StorageError, OSError) as group:
        raise group.exceptions[0] from None
    return ExitCode.OK


async def _run(config: Config, once_s: float | None) -> None:
    keys, clock = await asyncio.to_thread(open_keys, config), SystemClock()
    if once_s is None:
        await Service(config, keys, clock).run()
    else:
        await Pipeline(config, keys, clock).run_once(once_s)


async def _print_readings(config: Config, seconds: float) -> None:
    """One JSON object per reading on stdout; changes of state go to the log."""
    try:
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            for name, driver in config.build_drivers().items():
                group.create_task(_print_driver(driver), name=f"collect: {name}")
    except TimeoutError:
        sys.stdout.flush()


async def _print_driver(driver: object) -> None:
    async for happening in attend(driver):  # type: ignore[arg-type]
        if isinstance(happening, DeviceChange):
            reason = f" reason={happening.reason}" if happening.reason else ""
            logging.getLogger(__name__).info("device %s; device=%s%s", happening.after, happening.device, reason)
            continue
        for reading in happening:
            value = f"{len(reading.value)} bytes" if isinstance(reading.value, bytes) else reading.value
            print(json.dumps({**reading._asdict(), "value": value}))
