"""`headgate demo` (and `make demo`): the whole picture on this machine, broken and settled."""

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

from agent.exit_codes import ExitCode
from protocol.errors import HeadgateError
from testbed.demo.narrator import Narrator
from testbed.demo.settings import DemoSettings
from testbed.demo.stage import Stage
from testbed.demo.story import play
from testbed.interruption import run_until_told

DESCRIPTION = (
    "A node, a collector and three agents with devices behind real serial ports, on this machine. The network is cut,"
    " an agent killed; then everything is shipped and ingested, and the ledger must end in 'lost 0, duplicated 0'."
    " Any other outcome is exit code 1."
)
DEFAULT_DEVICES: Final = 4
MAX_DEVICES: Final = 64
DEFAULT_REPORT: Final = "headgate-demo.html"  # in the system's place for temporary files


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keep", action="store_true", help="go on at the end, with all pages open, until Ctrl-C")
    parser.add_argument("--fast", action="store_true", help="shorter scenes")
    parser.add_argument(
        "--devices", type=_devices, default=DEFAULT_DEVICES, metavar="N", help="weather stations (default: %(default)s)"
    )
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help=f"where the report goes (default: {DEFAULT_REPORT}, in $TMPDIR)"
    )


def _devices(text: str) -> int:
    if not 2 <= (number := int(text)) <= MAX_DEVICES:
        raise argparse.ArgumentTypeError(f"2 to {MAX_DEVICES}: each of two agents wants one")
    return number


def run(arguments: argparse.Namespace) -> int:
    report = arguments.report or Path(tempfile.gettempdir()) / DEFAULT_REPORT
    make = DemoSettings.fast if arguments.fast else DemoSettings
    settings = make(devices=arguments.devices, report=report.resolve())
    folder = Path(tempfile.mkdtemp(prefix="headgate-demo-"))
    try:
        return run_until_told(_play(Stage(folder, settings), keep=arguments.keep))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _play(stage: Stage, *, keep: bool) -> int:
    narrator = Narrator()
    try:
        account = await play(stage, narrator)
        if keep:
            await _stay(stage, narrator)
    except* HeadgateError as group:
        raise group.exceptions[0] from None
    finally:
        await asyncio.shield(stage.close())
    if stage.settings.report.exists():
        print(f"the report: {stage.settings.report}")
    print(f"produced {account.produced}, ingested {account.ingested}")
    print(f"lost {account.lost}, duplicated {account.duplicated}", flush=True)
    return ExitCode.OK if account.is_settled else ExitCode.NO


async def _stay(stage: Stage, narrator: Narrator) -> None:
    """Everything runs on; pages are opened where there is a screen."""
    stage.speak()
    report = [stage.settings.report.as_uri()] if stage.settings.report.exists() else []
    pages = [*stage.pages().values(), f"http://{stage.node.address}/", *report]
    narrator.say(f"everything runs on, below {stage.folder}; Ctrl-C ends it")
    for page in pages:
        narrator.add(page)
        if os.environ.get("DISPLAY") and sys.stdout.isatty():
            webbrowser.open(page)
    with contextlib.suppress(asyncio.CancelledError):  # Ctrl-C is how it ends
        await asyncio.Event().wait()
