"""`headgate run`: runs the agent, after the same checks as `headgate check`."""

import argparse
import asyncio
import json
import logging
import os
import sys

from agent.clock import Clock, SystemClock
from agent.config.configuration import Config
from agent.config.files import check_files, log_remarks, open_keys
from agent.errors import ConfigError, ExitCode, StorageError
from agent.operator.arguments import add_config_argument, load_named_config, positive
from agent.pipeline import Pipeline
from agent.service.lifecycle import Service
from agent.service.logs import set_up_logs
from agent.service.memory import reduce_memory_use
from agent.service.status import collect_status, write_status
from drivers import DeviceChange, supervise
from runtime.stopping import run_and_end

DESCRIPTION = (
    "Run the agent: read the sensors, store the readings durably, publish and archive them, until SIGTERM or Ctrl-C."
)
DEFAULT_ONCE_S = 5.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_argument(parser)
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--once", action="store_true", help="read for a few seconds, publish everything in the journal, and exit"
    )
    how.add_argument(
        "--dry-run",
        action="store_true",
        help="read for a few seconds and print the readings; store and publish nothing",
    )
    parser.add_argument(
        "--seconds",
        type=positive,
        default=DEFAULT_ONCE_S,
        metavar="S",
        help="seconds to read with --once or --dry-run (default: %(default)g)",
    )


def run(arguments: argparse.Namespace) -> int:
    reduce_memory_use()
    config = load_named_config(arguments)
    set_up_logs(config.log)
    if not arguments.dry_run:
        check_files(config, with_links=False)
        log_remarks(config)
    work = _print_readings if arguments.dry_run else _run
    try:
        run_and_end(work(config, arguments.seconds if arguments.once or arguments.dry_run else None))
    except* (ConfigError, StorageError, OSError) as group:
        raise group.exceptions[0] from None
    return ExitCode.OK


async def _run(config: Config, once_s: float | None) -> None:
    keys, clock = await asyncio.to_thread(open_keys, config), SystemClock()
    if once_s is None:
        await Service(config, keys, clock).run()
    else:
        await _run_once(Pipeline(config, keys, clock), clock, once_s)


async def _run_once(pipeline: Pipeline, clock: Clock, seconds: float) -> None:
    """It leaves its status for `headgate status`, as a service does."""

    async def leave_status() -> None:
        write_status(pipeline.config.status_file, await collect_status(pipeline, clock, os.getpid()))

    await pipeline.run_once(seconds, leave_status)


async def _print_readings(config: Config, seconds: float | None) -> None:
    """One JSON object per reading on stdout; changes of state go to the log."""
    try:
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            for name, driver in config.build_drivers().items():
                group.create_task(_print_driver(driver), name=f"collect: {name}")
    except TimeoutError:
        sys.stdout.flush()


async def _print_driver(driver: object) -> None:
    async for happening in supervise(driver):  # type: ignore[arg-type]
        if isinstance(happening, DeviceChange):
            reason = f" reason={happening.reason}" if happening.reason else ""
            logging.getLogger(__name__).info("device %s; device=%s%s", happening.after, happening.device, reason)
            continue
        for reading in happening:
            value = f"{len(reading.value)} bytes" if isinstance(reading.value, bytes) else reading.value
            print(json.dumps({**reading._asdict(), "value": value}))
