"""`headgate node`: runs a node, and shows the data of one."""

import argparse
import asyncio
import gc
import json
import logging
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from node.config import DEFAULT_DATA, DEFAULT_LISTEN, NodeConfig, load_config
from node.mqtt_bridge.command import add_mqtt_arguments, plan_mqtt_bridge
from node.overlay.command import add_overlay_arguments, plan_overlay
from node.permissions.commands import (
    add_data_argument,
    add_grant_arguments,
    add_revoke_arguments,
    run_grant,
    run_revoke,
)
from node.service import Node
from node.storage import DATABASE_NAME, read_grants, read_stored_streams, read_totals, reading, used_bytes
from node.streams import PUBLIC
from node.tracker.command import add_tracker_arguments, run_tracker
from runtime.local_paths import local_path
from runtime.settings import listen_option
from runtime.stopping import call_on_stop_signals, run_and_end

DESCRIPTION = (
    "A Streamr-compatible node for a local network: websocket and REST interfaces for stock clients, storage"
    " and resends; and a tracker."
)

NEW_OBJECTS_BEFORE_COLLECTION: Final = 20_000
"""More objects than a batch of messages has. They are freed as soon as they are delivered; scanning them for garbage
repeatedly before that would cost as much as storing them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    serve = actions.add_parser("run", help="run the node until SIGTERM")
    serve.add_argument("--config", type=local_path, metavar="FILE", help="configuration file (TOML, optional)")
    serve.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help=f"address to listen on; port 0 picks a free one (default: {DEFAULT_LISTEN})",
    )
    serve.add_argument("--data", type=local_path, metavar="DIR", help=f"data directory (default: {DEFAULT_DATA})")
    serve.add_argument("--json", action="store_true", help="print the listening addresses as JSON")
    add_overlay_arguments(serve)
    add_mqtt_arguments(serve)
    add_tracker_arguments(
        actions.add_parser("tracker", help="run a tracker, which assigns neighbours to nodes, until SIGTERM")
    )
    add_grant_arguments(actions.add_parser("grant", help="grant a permission on a stream"))
    add_revoke_arguments(actions.add_parser("revoke", help="revoke a permission on a stream"))
    for name, what in (
        ("streams", "list the streams and how much of each is stored"),
        ("permissions", "list the permissions of users on streams"),
        ("stat", "show totals of the storage"),
    ):
        reading = actions.add_parser(name, help=what)
        add_data_argument(reading)
        reading.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    match arguments.action:
        case "run":
            return _serve(arguments)
        case "tracker":
            return run_tracker(arguments)
        case "grant":
            return run_grant(arguments)
        case "revoke":
            return run_revoke(arguments)
        case "streams":
            _show_streams(arguments.data, as_json=arguments.json)
        case "permissions":
            _show_permissions(arguments.data, as_json=arguments.json)
        case "stat":
            _show_sums(arguments.data, as_json=arguments.json)
    return 0


# --- serving ---


def _serve(arguments: argparse.Namespace) -> int:
    config = _config(arguments)
    attachments = [plan_overlay(arguments), plan_mqtt_bridge(arguments, config.data)]
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(message)s")
    gc.set_threshold(NEW_OBJECTS_BEFORE_COLLECTION)
    node = Node(config)
    for attach in attachments:
        attach(node)
    run_and_end(_run(node, as_json=arguments.json))
    return 0


def _config(arguments: argparse.Namespace) -> NodeConfig:
    """The file's settings, and those of the command line over them. Raises: `ConfigError`."""
    config = load_config(arguments.config) if arguments.config else NodeConfig()
    if arguments.data:
        config = replace(config, data=arguments.data)
    if arguments.listen:
        config = replace(config, listen=listen_option("--listen", arguments.listen))
    return config


async def _run(node: Node, *, as_json: bool) -> None:
    stop = asyncio.Event()
    call_on_stop_signals(lambda _: stop.set())

    def ready(host: str, port: int) -> None:
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        text = json.dumps({"listen": address}) if as_json else f"node listens; address={address}"
        print(text, file=sys.stderr, flush=True)

    await node.run(ready=ready, stop=stop)


# --- showing the data, whether or not the node is running ---


def _show_streams(data: Path, *, as_json: bool) -> None:
    with reading(data) as connection:
        totals = read_totals(connection)
        rows = []
        for stream, holder, is_declared in read_stored_streams(connection):
            mine = [part for part in totals if part.stream_id == stream.id]
            rows.append(
                {
                    "id": stream.id,
                    "owner": "configuration" if is_declared else holder.owner or None,
                    "partitions": stream.partitions,
                    "signed": stream.require_signed_data,
                    "encrypted": stream.require_encrypted_data,
                    "storage_days": stream.storage_days,
                    "messages": sum(part.messages for part in mine),
                    "bytes": sum(part.bytes for part in mine),
                }
            )
    _show(rows, as_json=as_json)


def _show_permissions(data: Path, *, as_json: bool) -> None:
    with reading(data) as connection:
        rows = [
            {"number": number, "stream": stream_id, "user": user or "public", "operation": operation.value}
            for number, (stream_id, user, operation) in read_grants(connection)
        ]
    _show(rows, as_json=as_json)


def _show_sums(data: Path, *, as_json: bool) -> None:
    with reading(data) as connection:
        totals = read_totals(connection)
        sums = {
            "database": str(data / DATABASE_NAME),
            "database_bytes": used_bytes(connection),
            "streams": sum(1 for _ in read_stored_streams(connection)),
            "permissions": sum(1 for _ in read_grants(connection)),
            "public_permissions": sum(grant.user == PUBLIC for _, grant in read_grants(connection)),
            "messages": sum(part.messages for part in totals),
            "message_bytes": sum(part.bytes for part in totals),
            "oldest_ms": min((part.oldest_ms for part in totals if part.oldest_ms is not None), default=None),
            "newest_ms": max((part.newest_ms for part in totals if part.newest_ms is not None), default=None),
        }
    if as_json:
        print(json.dumps(sums))
    else:
        print("\n".join(f"{key:<20}{_shown(value)}" for key, value in sums.items()))


def _show(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(rows))
    elif rows:
        print("\n".join(_table_lines(rows)))


def _table_lines(rows: list[dict[str, Any]]) -> Iterable[str]:
    cells = [list(rows[0]), *([_shown(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


def _shown(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
    return str(value)
