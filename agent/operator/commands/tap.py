"""`headgate tap`: prints readings as the agent commits them, read from its journal."""

import argparse
import itertools
import sys
import time
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import partial

from agent.config.configuration import Config
from agent.errors import ConfigError, ExitCode
from agent.journal import Record
from agent.journal.inspection import Follower, View, inspect_journal, open_read_only
from agent.operator.arguments import add_config_argument, count, load_named_config
from agent.operator.commands.status import last_seen
from agent.operator.contents import Locked, Opened, Unreadable, open_message
from agent.operator.subscription_report import as_json_lines, as_text_lines
from agent.pack.routing import DEFAULT_RULE, PLACEHOLDERS
from protocol.errors import WireError
from protocol.streamr.group_keys.group_key import GroupKey
from protocol.streamr.stream_message import EncryptionType, StreamMessage, parse_stream_message

DESCRIPTION = (
    "Print the readings that the agent on this machine commits, as it commits them, one per line. It only reads the"
    " journal: it needs no network and does not slow the agent down. Encrypted messages are decrypted with the"
    " device's own keys, if this user may read them."
)
POLL_S = 0.25
QUIET_POLLS = 8  # without a message, before it prints that it is waiting
RECENT_RECORDS = 500  # of each lane: the streams of these count as known


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "stream",
        nargs="?",
        default="*",
        metavar="STREAM",
        help="only streams with this id, id suffix or wildcard pattern (default: all)",
    )
    add_config_argument(parser)
    parser.add_argument(
        "--last",
        type=count,
        default=0,
        metavar="N",
        help="start with the messages that hold the last N readings of each priority (default: 0)",
    )
    parser.add_argument("--count", type=count, default=None, metavar="N", help="exit after N readings")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")


def run(arguments: argparse.Namespace) -> int:
    config = load_named_config(arguments)
    known = _known_streams(config)
    if not any(may_match(each, arguments.stream) for each in known):
        problem = f"no stream has the id or id suffix {arguments.stream!r}; known streams:"
        print("\n  ".join([f"headgate: {problem}", *sorted(known)]), file=sys.stderr)
        return ExitCode.NO
    keys = _Keys(config)
    events = map(keys.open, _messages(config, arguments.last, arguments.stream))
    lines = map(as_json_lines if arguments.json else _text_lines, events)
    for line in itertools.islice(itertools.chain.from_iterable(lines), arguments.count):
        print(line, flush=True)
    return ExitCode.OK


_text_lines = partial(as_text_lines, with_stream=True)


def may_match(known: str, pattern: str) -> bool:
    """Whether a stream with this id, in which `*` stands for parts not known yet, can match the pattern."""
    if any(each in pattern for each in "*?["):
        return True  # it may match streams that are created later
    ends = ["/".join(known.split("/")[at:]) for at in range(known.count("/") + 1)]
    return any(fnmatchcase(pattern, end) for end in ends)


def _known_streams(config: Config) -> set[str]:
    """The streams of the last messages in the journal, and those of the configuration."""
    with open_read_only(config.journal_directory) as disk:
        records = list(Follower(inspect_journal(disk), RECENT_RECORDS).new_records(disk))
    seen = {record.chain.rpartition("#")[0] or record.chain for record in records}
    return seen | {each for each in _configured_streams(config) if not any(fnmatchcase(one, each) for one in seen)}


def _configured_streams(config: Config) -> Iterator[str]:
    names = {**dict.fromkeys(PLACEHOLDERS, "*"), "device": config.device.name}
    templates = [rule.stream for rule in config.streams] or [DEFAULT_RULE.stream]
    for driver in config.drivers:
        yield from (template.format_map({**names, "driver": driver}) for template in templates)
    yield config.device.events_stream.format_map(names)


def matches(stream_id: str, pattern: str) -> bool:
    """Whether the stream id equals the pattern, ends with it after a slash, or matches it as a wildcard."""
    return stream_id.endswith(f"/{pattern}") or fnmatchcase(stream_id, pattern)


def _messages(config: Config, last: int, pattern: str) -> Iterator[StreamMessage]:
    """The messages that match, without end. Prints once that it is waiting, when none has come for a while."""
    with open_read_only(config.journal_directory) as disk:
        view = inspect_journal(disk)
    follower, gaps = Follower(view, last), _Gaps(view)
    quiet_polls, is_reported = 0, False
    while True:
        quiet_polls += 1
        with open_read_only(config.journal_directory) as disk:
            records = map(gaps.report, follower.new_records(disk))
            for message in itertools.chain.from_iterable(map(_message, records)):
                if matches(message.message_id.stream_id, pattern):
                    quiet_polls = 0
                    yield message
        if quiet_polls == QUIET_POLLS and not is_reported:
            is_reported = True
            state = "" if _is_agent_running(config) else " (the agent is not running)"
            print(f"headgate: waiting for messages of {pattern}{state}; press Ctrl-C to stop", file=sys.stderr)
        time.sleep(POLL_S)


def _is_agent_running(config: Config) -> bool:
    try:
        return last_seen(config).is_alive
    except (ConfigError, OSError):
        return False


def _message(record: Record) -> Iterator[StreamMessage]:
    try:
        yield parse_stream_message(record.payload)
    except WireError as problem:
        print(f"headgate: lane {record.lane}, position {record.position}: {problem}", file=sys.stderr)


class _Gaps:
    """Reports readings that were committed and deleted between two polls: their positions are missing."""

    def __init__(self, view: View) -> None:
        self._next = {number: lane.next_position for number, lane in view.lanes.items()}

    def report(self, record: Record) -> Record:
        first = self._next.get(record.lane, 0)
        if missed := max(record.position - first, 0):
            where = f"lane {record.lane}, positions {first} to {record.position - 1}"
            print(f"headgate: {where}: {missed} readings left the journal before they were read", file=sys.stderr)
        self._next[record.lane] = max(first, record.next_position)
        return record


class _Keys:
    """The device's own group keys, read at the first encrypted message and again for each unknown key id."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._known: dict[tuple[str, str], GroupKey] = {}
        self._problem = ""

    def open(self, message: StreamMessage) -> Opened | Unreadable | Locked:
        if message.encryption_type is EncryptionType.NONE:
            return open_message(message, None, "")
        key = self._find(message.message_id.stream_id, message.group_key_id or "")
        return open_message(message, key, self._problem or "the device has no such key")

    def _find(self, stream_id: str, key_id: str) -> GroupKey | None:
        if (stream_id, key_id) not in self._known and not self._problem:
            try:
                self._read(stream_id)
            except (ConfigError, OSError) as problem:
                self._problem = str(problem)
        return self._known.get((stream_id, key_id))

    def _read(self, stream_id: str) -> None:
        from agent.config.files import open_keys
        from agent.keys.group_keys import GroupKeyStore

        folder = self._config.device.data_directory / "keys" / "groups"
        if folder.is_dir():
            for key in GroupKeyStore(folder, open_keys(self._config)).history(stream_id):
                self._known[stream_id, key.key_id] = GroupKey(key.key_id, key.secret.reveal())
