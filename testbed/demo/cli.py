"""`headgate demo` (and `make demo`): runs the whole system on this machine, with faults; nothing may be lost."""

import argparse
import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
import webbrowser
from pathlib import Path
from typing import Final

from agent.errors import ExitCode
from testbed.demo.settings import DemoSettings
from testbed.demo.stage import Stage
from testbed.demo.story import Narrator, play
from testbed.processes import run_until_signal

DESCRIPTION = (
    "Run a node, a collector and three agents with devices on real serial ports, on this machine. The network"
    " is cut and an agent is killed; then everything is shipped and ingested, and the ledger must end in 'lost"
    " 0, duplicated 0'. Exit code 1: any other outcome."
)
DEFAULT_DEVICES: Final = 4
MAX_DEVICES: Final = 64
DEFAULT_REPORT: Final = "headgate-demo.html"  # in the temporary directory


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keep", action="store_true", help="keep everything running at the end, until Ctrl-C")
    parser.add_argument("--fast", action="store_true", help="shorter phases")
    parser.add_argument(
        "--devices",
        type=_devices,
        default=DEFAULT_DEVICES,
        metavar="N",
        help="number of weather stations (default: %(default)s)",
    )
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help=f"HTML report to write (default: {DEFAULT_REPORT}, in $TMPDIR)"
    )


def _devices(text: str) -> int:
    if not 2 <= (number := int(text)) <= MAX_DEVICES:
        raise argparse.ArgumentTypeError(f"expected 2 to {MAX_DEVICES}: two agents need one each")
    return number


def run(arguments: argparse.Namespace) -> int:
    report = arguments.report or Path(tempfile.gettempdir()) / DEFAULT_REPORT
    make = DemoSettings.fast if arguments.fast else DemoSettings
    settings = make(devices=arguments.devices, report=report.resolve())
    folder = Path(tempfile.mkdtemp(prefix="headgate-demo-"))
    try:
        return run_until_signal(_play(Stage(folder, settings), keep=arguments.keep))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _play(stage: Stage, *, keep: bool) -> int:
    narrator = Narrator()
    try:
        account = await play(stage, narrator)
        if keep:
            await _stay(stage, narrator)
    finally:
        await asyncio.shield(stage.close())
    if stage.settings.report.exists():
        print(f"report: {stage.settings.report}")
    print(*account.as_lines(), sep="\n", flush=True)
    return ExitCode.OK if account.is_settled else ExitCode.NO


async def _stay(stage: Stage, narrator: Narrator) -> None:
    """Keep everything running until Ctrl-C, and open the pages in a browser if there is a display."""
    stage.start_devices()
    report = [stage.settings.report.as_uri()] if stage.settings.report.exists() else []
    pages = [*stage.pages().values(), f"http://{stage.node.address}/", *report]
    narrator.say(f"everything keeps running, with its files in {stage.folder}; press Ctrl-C to stop")
    for page in pages:
        narrator.add(page)
        if os.environ.get("DISPLAY") and sys.stdout.isatty():
            webbrowser.open(page)
    with contextlib.suppress(asyncio.CancelledError):  # Ctrl-C is how it ends
        await asyncio.Event().wait()
