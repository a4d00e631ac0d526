"""`headgate rekey`: rotates the keys of encrypted streams."""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from agent.config.configuration import Config
from agent.config.files import key_file_of
from agent.errors import ConfigError, ExitCode
from agent.keys import read_key_file
from agent.operator.arguments import add_config_argument, load_named_config
from agent.pack.encryption import FOLDER_NAME, is_rekey_requested, request_rekey
from agent.pack.routing import expand_stream_id

DESCRIPTION = (
    "Make the agent rotate the keys of encrypted streams now. To exclude a reader, first remove its address"
    " from `readers` in the configuration and reload. Exit code 1: the agent did not confirm in time; it rotates"
    " the keys when it next runs."
)
DEFAULT_WAIT_S = 10.0
POLL_S = 0.1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_argument(parser)
    parser.add_argument("streams", nargs="*", metavar="STREAM", help="stream ids (default: all encrypted streams)")
    parser.add_argument(
        "--wait",
        type=float,
        default=DEFAULT_WAIT_S,
        metavar="S",
        help="seconds to wait for the agent (default: %(default)g)",
    )


def run(arguments: argparse.Namespace) -> int:
    config = load_named_config(arguments)
    folder = config.device.data_directory / FOLDER_NAME
    streams = _named_streams(arguments.streams, _encrypted_streams(config))
    if not folder.is_dir():
        raise ConfigError(f"{folder}: does not exist; start the agent once with this configuration")
    for stream_id in streams:
        request_rekey(folder, stream_id)
    waiting = _wait(folder, streams, arguments.wait)
    for stream_id in streams:
        print(f"{stream_id}: {'requested, not done yet' if stream_id in waiting else 'has a new key'}")
    return ExitCode.NO if waiting else ExitCode.OK


def _encrypted_streams(config: Config) -> list[str]:
    address = "0x" + read_key_file(key_file_of(config)).public.address.hex()
    names = {"address": address, "device": config.device.name}
    return [expand_stream_id(rule.stream, names) for rule in config.streams if rule.encryption != "none"]


def _named_streams(named: Sequence[str], encrypted: Sequence[str]) -> Sequence[str]:
    """Raises: ConfigError."""
    if unknown := [stream_id for stream_id in named if stream_id not in encrypted]:
        raise ConfigError(
            f"not an encrypted stream: {', '.join(unknown)}; encrypted streams: {', '.join(encrypted) or 'none'}"
        )
    if not encrypted:
        raise ConfigError("this configuration has no encrypted stream")
    return named or encrypted


def _wait(folder: Path, streams: Sequence[str], wait_s: float) -> Sequence[str]:
    """Wait for the agent. Returns the streams whose key was not rotated in time."""
    until_s = time.monotonic() + wait_s
    while waiting := [stream_id for stream_id in streams if is_rekey_requested(folder, stream_id)]:
        if time.monotonic() >= until_s:
            print(f"the agent did not confirm within {wait_s:g} s; it rotates the keys when it runs", file=sys.stderr)
            break
        time.sleep(POLL_S)
    return waiting
