"""`headgate node`: run a local network, and look into the data of one."""

import argparse
import asyncio
import json
import logging
import signal
import sys
from pathlib import Path
from typing import Final

from node.access import Access
from node.limits import Limits
from node.overlay.command import add_overlay_arguments, attach_overlay
from node.service import Node
from node.tracker.command import add_tracker_arguments, run_tracker

DESCRIPTION = "A local network: websocket and REST as stock Streamr clients expect them, with resends from storage."
DEFAULT_LISTEN: Final = "127.0.0.1:7070"
DEFAULT_DATA: Final = Path("node-data")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    run = actions.add_parser("run", help="serve until SIGTERM")
    run.add_argument("--listen", default=DEFAULT_LISTEN, metavar="HOST:PORT", help=f"default {DEFAULT_LISTEN}")
    run.add_argument("--data", type=Path, default=DEFAULT_DATA, metavar="DIR", help="where everything is kept")
    run.add_argument("--json", action="store_true", help="say where it listens in JSON")
    add_overlay_arguments(run)
    add_tracker_arguments(actions.add_parser("tracker", help="tell nodes whom to connect to, until SIGTERM"))


def run(arguments: argparse.Namespace) -> int:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(message)s")
    if arguments.action == "tracker":
        return run_tracker(arguments)
    host, _, port = arguments.listen.rpartition(":")
    node = Node(arguments.data, Limits(), Access())
    attach_overlay(node, arguments)
    asyncio.run(_run(node, host.strip("[]"), int(port), as_json=arguments.json))
    return 0


async def _run(node: Node, host: str, port: int, *, as_json: bool) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)

    def ready(host: str, port: int) -> None:
        shown = f"[{host}]" if ":" in host else host
        text = json.dumps({"listen": f"{shown}:{port}"}) if as_json else f"node listens; address={shown}:{port}"
        print(text, file=sys.stderr, flush=True)

    await node.run(host, port, ready=ready, stop=stop)
