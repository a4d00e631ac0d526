"""`headgate journal`: inspects, verifies, repairs or exports a journal."""

import argparse
import base64
import contextlib
import dataclasses
import json
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

from agent.errors import ExitCode
from agent.journal import DirectoryDisk, JournalStats, Record
from agent.journal.inspection import Follower, check_is_journal, inspect_journal, open_read_only, stats_of
from agent.journal.repair import Verdict, repair, verify
from agent.operator.terminal import bytes_text, duration_text
from protocol.losses import Loss

DESCRIPTION = "Inspect, verify, repair or export a journal. All actions but repair work while the agent is running."
FOLLOW_INTERVAL_S = 0.5
PROGRESS_INTERVAL_S = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    def add(name: str, action: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        subparser = actions.add_parser(name, help=text)
        subparser.add_argument("directory", type=Path, metavar="DIRECTORY", help="directory of the journal")
        subparser.set_defaults(perform=action)
        return subparser

    _add_json(add("stat", _stat, "show fill level, lag of each reader, card wear and forecasts"))
    _add_json(add("verify", _verify, "read and check every record; exit code 1 if any is damaged"))
    _add_json(add("repair", _repair, "record damaged records as lost and rewrite their segments; stop the agent first"))
    exporting = add("export", _export, "print records as JSON lines, one message with all its readings in each")
    exporting.add_argument("--lane", type=int, metavar="N", help="only records of this lane")
    exporting.add_argument("--from", dest="position", type=int, default=0, metavar="N", help="start at this position")
    exporting.add_argument("--output", type=Path, metavar="FILE", help="write to this file (default: stdout)")
    tailing = add("tail", _tail, "print the records with the last readings of each lane as JSON lines")
    tailing.add_argument("--readings", type=int, default=10, metavar="N", help="readings per lane (default: 10)")
    tailing.add_argument("--follow", action="store_true", help="keep printing new records as they are committed")


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    perform: Callable[[argparse.Namespace], int] = arguments.perform
    return perform(arguments)


# stat


def _stat(arguments: argparse.Namespace) -> int:
    with open_read_only(arguments.directory) as disk:
        stats = stats_of(inspect_journal(disk), _now_ms())
    print(json.dumps(_stats_json(stats)) if arguments.json else "\n".join(_stats_lines(stats)))
    return ExitCode.OK


def _stats_json(stats: JournalStats) -> dict[str, Any]:
    derived = ("written_per_payload_byte", "full_in_s", "card_life_s")
    return {**dataclasses.asdict(stats), **{name: getattr(stats, name) for name in derived}}


def _stats_lines(stats: JournalStats) -> Iterator[str]:
    for number, lane in stats.lanes.items():
        yield f"lane {number}: positions {lane.first_position} to {lane.next_position}, segments {lane.segments}"
    for name, cursor in stats.cursors.items():
        age = "" if cursor.oldest_age_s is None else f", oldest {duration_text(cursor.oldest_age_s)}"
        yield f"{name}: {cursor.depth} readings pending{age}"
    yield f"losses pending: {stats.pending_losses}"
    yield f"committed: {stats.readings} readings in {stats.records} messages"
    yield f"readings lost: shed {stats.shed_readings}, damaged {stats.damaged_readings}"
    yield f"power cuts during a commit: {stats.torn_tails}, states rebuilt: {stats.lost_states}"
    yield f"on disk: {bytes_text(stats.bytes_on_disk)} of {bytes_text(stats.max_bytes)}"
    yield f"full if nothing is acknowledged: {_forecast(stats.full_in_s)}"
    ratio = stats.written_per_payload_byte
    written = "" if ratio is None else f", {ratio:.2f} bytes for each byte of payload"
    yield f"written: {bytes_text(stats.written_bytes)}{written}, {stats.commits_per_s:.2f} commits/s"
    yield f"card worn out: {_forecast(stats.card_life_s)}"


def _forecast(seconds: float | None) -> str:
    return "unknown" if seconds is None else f"in {duration_text(seconds)}"


# verify and repair


def _verify(arguments: argparse.Namespace) -> int:
    with open_read_only(arguments.directory) as disk:
        verdict = verify(disk, _Progress("positions"))
    if arguments.json:
        print(json.dumps({**dataclasses.asdict(verdict), "is_sound": verdict.is_sound}))
    else:
        print("\n".join(_verdict_lines(verdict)))
    return ExitCode.OK if verdict.is_sound else ExitCode.NO


def _verdict_lines(verdict: Verdict) -> Iterator[str]:
    for loss in verdict.damage:
        yield f"damaged: {_loss_text(loss)}"
    for loss in verdict.known:
        yield f"known: {_loss_text(loss)}"
    for name in verdict.bad_state_copies:
        yield f"{name}: this copy of the state file is unreadable"
    damaged = sum(loss.count for loss in verdict.damage)
    yield f"{verdict.readings} readings intact, in {verdict.records} messages; {damaged} readings damaged"


def _loss_text(loss: Loss) -> str:
    chain = f", chain {loss.chain}" if loss.chain else ""
    return f"lane {loss.lane}, {loss.count} readings of positions {loss.first_position} to {loss.last_position}{chain}"


def _repair(arguments: argparse.Namespace) -> int:
    directory: Path = arguments.directory
    check_is_journal(directory)
    with contextlib.closing(DirectoryDisk(directory)) as disk:
        done = repair(disk, new_journal_id=secrets.randbits(64), now_ms=_now_ms(), progress=_Progress("segments"))
    if arguments.json:
        print(json.dumps(dataclasses.asdict(done)))
    else:
        print(f"{done.rewritten_segments} segments rewritten, {done.lost_readings} readings newly reported as lost")
    return ExitCode.OK


class _Progress:
    """A line on stderr now and then, while long work goes on."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._next_s = time.monotonic() + PROGRESS_INTERVAL_S

    def __call__(self, done: int, total: int) -> None:
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + PROGRESS_INTERVAL_S
            print(f"{done} of {total} {self._unit}", file=sys.stderr)


# export and tail


def _export(arguments: argparse.Namespace) -> int:
    progress, done = _Progress("readings"), 0
    with open_read_only(arguments.directory) as disk, _output(arguments.output) as output:
        view = inspect_journal(disk)
        chosen = [lane for lane in view.lanes.values() if arguments.lane in (None, lane.number)]
        total = sum(lane.next_position - max(lane.first_position, arguments.position) for lane in chosen)
        records = (record for lane in chosen for record in view.records(lane, arguments.position))
        for record in records:
            print(_record_json(record), file=output)
            done += record.readings
            progress(done, total)
    return ExitCode.OK


def _tail(arguments: argparse.Namespace) -> int:
    with open_read_only(arguments.directory) as disk:
        follower = Follower(inspect_journal(disk), arguments.readings)
    while True:
        with open_read_only(arguments.directory) as disk:
            for record in follower.new_records(disk):
                print(_record_json(record), flush=True)
        if not arguments.follow:
            return ExitCode.OK
        time.sleep(FOLLOW_INTERVAL_S)


def _record_json(record: Record) -> str:
    values = record._asdict()
    payload = values.pop("payload")
    try:
        values["payload"] = payload.decode()
    except UnicodeDecodeError:
        values["payload_base64"] = base64.b64encode(payload).decode()
    return json.dumps(values, ensure_ascii=False)


@contextlib.contextmanager
def _output(path: Path | None) -> Iterator[TextIO]:
    if path is None:
        yield sys.stdout
        return
    with path.open("w", encoding="utf-8") as file:
        yield file


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
