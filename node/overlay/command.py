"""The overlay options of `headgate node run`: attaches an overlay and a tracker to the node."""

import argparse
import sys
from collections.abc import Callable
from typing import Final

from node.overlay.overlay import Overlay, OverlaySettings
from node.peers.handshake import PeerType
from node.peers.server import listen, new_chance, shown_address
from node.service import Node
from node.tracker.server import TrackerServer
from runtime.settings import listen_option

DEFAULT_OVERLAY: Final = "127.0.0.1:0"


def add_overlay_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("other nodes")
    group.add_argument("--join", metavar="URL", help="join the network of the tracker at ws://HOST:PORT")
    group.add_argument(
        "--overlay",
        default=DEFAULT_OVERLAY,
        metavar="HOST:PORT",
        help="address on which neighbour nodes connect (default: %(default)s)",
    )
    group.add_argument(
        "--advertise", metavar="URL", help="URL that other nodes use to reach it, if not the --overlay address"
    )
    group.add_argument(
        "--peer-type",
        choices=[PeerType.STORAGE.value, PeerType.NODE.value],
        default=PeerType.STORAGE.value,
        help="storage: store all streams; node: only the streams its clients use (default: storage)",
    )
    group.add_argument(
        "--network-layer",
        action="store_true",
        help="also connect to older nodes (network layer), with the same port and tracker",
    )
    group.add_argument("--tracker", metavar="HOST:PORT", help="also run a tracker in this process, on this address")


def plan_overlay(arguments: argparse.Namespace) -> Callable[[Node], None]:
    """A function that attaches the overlay and the tracker of the command line to a node; it may raise OSError.

    The options are checked here, before anything is opened. Raises: `ConfigError`.
    """
    tracker = listen_option("--tracker", arguments.tracker) if arguments.tracker else None
    overlay = listen_option("--overlay", arguments.overlay)
    settings = _settings(arguments, arguments.join) if arguments.join else None

    def attach(node: Node) -> None:
        tracker_url = _attach_tracker(node, tracker) if tracker else None
        if settings is not None:
            _attach_overlay(node, overlay, settings)
        elif tracker_url is not None:
            _attach_overlay(node, overlay, _settings(arguments, tracker_url))

    return attach


def _settings(arguments: argparse.Namespace, tracker_url: str) -> OverlaySettings:
    return OverlaySettings(
        tracker_url=tracker_url,
        address=arguments.advertise,
        peer_type=PeerType(arguments.peer_type),
        uses_network_layer=arguments.network_layer,
    )


def _attach_tracker(node: Node, where: tuple[str, int]) -> str:
    listener = listen(*where)
    address = shown_address(listener)
    tracker = TrackerServer(f"ws://{address}", chance=new_chance())
    node.tasks["tracker"] = lambda: tracker.run(listener)
    node.counters_of_parts["tracker"] = lambda: tracker.counters
    print(f"tracker listens; address={address}", file=sys.stderr, flush=True)
    return f"ws://{address}"


def _attach_overlay(node: Node, where: tuple[str, int], settings: OverlaySettings) -> None:
    overlay = Overlay(node.hub, node.storage, listen(*where), settings, chance=new_chance())
    node.tasks["overlay"] = overlay.run
    node.counters_of_parts["overlay"] = lambda: overlay.counters
    print(f"overlay listens; address={overlay.address}", file=sys.stderr, flush=True)
