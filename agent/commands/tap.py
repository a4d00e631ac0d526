"""`headgate tap`: messages as they pass through the agent on this machine, read from its journal."""

import argparse
import itertools
import sys
import time
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from agent.commands.config_argument import add_config_argument, load_named_config
from agent.config import Config
from agent.errors import ConfigError
from agent.exit_codes import ExitCode
from agent.journal import Record
from agent.journal.following import Follower
from agent.journal.inspection import look, opened_to_look
from agent.subscription import Locked, Opened
from agent.subscription_report import as_json_line, as_text_line
from protocol.errors import WireError
from protocol.streamr import EncryptionType, StreamMessage, decrypt_message, parse_stream_message
from protocol.streamr.group_key import GroupKey

DESCRIPTION = (
    "Show the messages that the agent on this machine commits, as it commits them. It only reads the journal, needs no"
    " link and holds nothing up. What is encrypted is opened with the device's own keys, where this user may read them."
)
LOOK_EVERY_S = 0.25


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "stream", nargs="?", default="*", metavar="STREAM", help="only these: an id, its end, or a pattern as for files"
    )
    add_config_argument(parser)
    parser.add_argument("--last", type=_count, default=0, metavar="N", help="begin with the last N of each priority")
    parser.add_argument("--count", type=_count, default=None, metavar="N", help="end after N messages")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")


def run(arguments: argparse.Namespace) -> int:
    config = load_named_config(arguments)
    keys = _Keys(config)
    messages = _messages(config.journal_directory, arguments.last)
    wanted = (message for message in messages if matches(message.message_id.stream_id, arguments.stream))
    for message in itertools.islice(wanted, arguments.count):
        event = keys.open(message)
        print(as_json_line(event) if arguments.json else as_text_line(event, with_stream=True), flush=True)
    return ExitCode.OK


def matches(stream_id: str, wanted: str) -> bool:
    """Whether it is the stream, ends with it after a slash, or fits the pattern."""
    return stream_id.endswith(f"/{wanted}") or fnmatchcase(stream_id, wanted)


def _messages(directory: Path, last: int) -> Iterator[StreamMessage]:
    with opened_to_look(directory) as disk:
        follower = Follower(look(disk), last)
    while True:
        with opened_to_look(directory) as disk:
            for record in follower.new_records(disk):
                yield from _message(record)
        time.sleep(LOOK_EVERY_S)


def _message(record: Record) -> Iterator[StreamMessage]:
    try:
        yield parse_stream_message(record.payload)
    except WireError as problem:
        print(f"headgate: lane {record.lane}, position {record.position}: {problem}", file=sys.stderr)


class _Keys:
    """The device's own group keys, read when the first encrypted message comes; and again for a key not seen before."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._known: dict[tuple[str, str], GroupKey] = {}
        self._problem = ""

    def open(self, message: StreamMessage) -> Opened | Locked:
        if message.encryption_type is EncryptionType.NONE:
            return Opened(message, message.content)
        key = self._find(message.message_id.stream_id, message.group_key_id or "")
        if key is None:
            return Locked(message, self._problem or "its key is not among the device's own")
        try:
            return Opened(message, decrypt_message(message, key).content)
        except (WireError, ValueError) as problem:
            return Locked(message, str(problem))

    def _find(self, stream_id: str, key_id: str) -> GroupKey | None:
        if (stream_id, key_id) not in self._known and not self._problem:
            try:
                self._read(stream_id)
            except (ConfigError, OSError) as problem:
                self._problem = str(problem)
        return self._known.get((stream_id, key_id))

    def _read(self, stream_id: str) -> None:
        from agent.keys.group_keys import GroupKeyStore
        from agent.service import open_keys

        folder = self._config.device.data_directory / "keys" / "groups"
        if folder.is_dir():
            for key in GroupKeyStore(folder, open_keys(self._config)).history(stream_id):
                self._known[stream_id, key.key_id] = GroupKey(key.key_id, key.secret.reveal())


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number
