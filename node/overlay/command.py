"""What `headgate node run` is told of the network around it, and how that becomes part of the node."""

import argparse
import sys
from typing import Final

from node.overlay.overlay import Overlay, OverlaySettings
from node.peers.arguments import new_chance, read_listen
from node.peers.handshake import PeerType
from node.peers.server import listen, shown_address
from node.service import Node
from node.tracker.server import TrackerServer

__all__ = ["add_overlay_arguments", "attach_overlay"]

DEFAULT_OVERLAY: Final = "127.0.0.1:0"


def add_overlay_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("other nodes")
    group.add_argument("--join", metavar="URL", help="take part in the network of this tracker, ws://HOST:PORT")
    group.add_argument(
        "--overlay", default=DEFAULT_OVERLAY, metavar="HOST:PORT", help=f"where neighbours connect; {DEFAULT_OVERLAY}"
    )
    group.add_argument("--advertise", metavar="URL", help="where others reach that, if they do not by its own name")
    group.add_argument(
        "--peer-type",
        choices=[PeerType.STORAGE.value, PeerType.NODE.value],
        default=PeerType.STORAGE.value,
        help="storage keeps every stream of the network, node only those its clients use; default storage",
    )
    group.add_argument("--network-layer", action="store_true", help="also join old nodes, at the same port and tracker")
    group.add_argument("--tracker", metavar="HOST:PORT", help="run a tracker in this process too")


def attach_overlay(node: Node, arguments: argparse.Namespace) -> None:
    """Let the node take part, and be the tracker, as its command line says. Raises: `ConfigError`, OSError."""
    join = arguments.join
    if arguments.tracker:
        listener = listen(*read_listen("--tracker", arguments.tracker))
        address = f"ws://{shown_address(listener)}"
        tracker = TrackerServer(address, chance=new_chance())
        node.tasks["tracker"] = lambda: tracker.run(listener)
        print(f"tracker listens; address={shown_address(listener)}", file=sys.stderr, flush=True)
        join = join or address
    if join:
        _join(node, arguments, join)


def _join(node: Node, arguments: argparse.Namespace, tracker_url: str) -> None:
    settings = OverlaySettings(
        tracker_url=tracker_url,
        address=arguments.advertise,
        peer_type=PeerType(arguments.peer_type),
        speaks_network_layer=arguments.network_layer,
    )
    listener = listen(*read_listen("--overlay", arguments.overlay))
    overlay = Overlay(node.hub, node.storage, listener, settings, chance=new_chance())
    node.tasks["overlay"] = overlay.run
    print(f"neighbours connect to the node; address={overlay.address}", file=sys.stderr, flush=True)
