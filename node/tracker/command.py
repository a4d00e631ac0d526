"""`headgate node tracker`: a tracker on its own, without a node."""

import argparse
import asyncio
import logging
import sys
from random import Random
from typing import Final

from node.peers.server import listen, new_chance, shown_address
from node.tracker.server import TrackerServer
from node.tracker.topology import DEFAULT_MAX_NEIGHBOURS, LEAST_MAX_NEIGHBOURS
from runtime.settings import listen_option
from runtime.stopping import call_on_stop_signals, run_and_end

DEFAULT_LISTEN: Final = "127.0.0.1:7071"


def add_tracker_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--listen", default=DEFAULT_LISTEN, metavar="HOST:PORT", help="address to listen on (default: %(default)s)"
    )
    parser.add_argument("--id", metavar="NAME", help="id of the tracker (default: its listening address)")
    parser.add_argument(
        "--max-neighbours",
        type=int,
        choices=range(LEAST_MAX_NEIGHBOURS, 21),
        default=DEFAULT_MAX_NEIGHBOURS,
        metavar="N",
        help=f"most neighbours per node and stream partition (default: {DEFAULT_MAX_NEIGHBOURS})",
    )
    parser.add_argument(
        "--seed", type=int, metavar="N", help="seed of the random choice of neighbours (default: random)"
    )


def run_tracker(arguments: argparse.Namespace) -> int:
    """Raises: `ConfigError`, OSError."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(message)s")
    run_and_end(_run(arguments))
    return 0


async def _run(arguments: argparse.Namespace) -> None:
    listener = listen(*listen_option("--listen", arguments.listen))
    chance = new_chance() if arguments.seed is None else Random(arguments.seed)  # noqa: S311 - no secret
    tracker = TrackerServer(
        arguments.id or f"ws://{shown_address(listener)}", chance=chance, max_neighbours=arguments.max_neighbours
    )
    serving = asyncio.create_task(tracker.run(listener))
    call_on_stop_signals(lambda _: serving.cancel())
    print(f"tracker listens; address={shown_address(listener)}", file=sys.stderr, flush=True)
    await asyncio.wait([serving])
    if not serving.cancelled():
        serving.result()
