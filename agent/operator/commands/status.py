"""`headgate status`: shows the last status of the agent."""

import argparse
import errno
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from agent.config.configuration import Config
from agent.errors import ConfigError, ExitCode
from agent.operator.arguments import add_config_argument, load_named_config
from agent.operator.device_log import describe_log, describe_origin
from agent.service.status import is_process, read_status
from protocol.shown_text import printable

DESCRIPTION = "Show the last status that the agent wrote. Exit code 1: the agent is not running or not making progress."
STALE_S = 60.0
MAX_KINDS = 3  # of rejected input; --json has them all


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    config = load_named_config(arguments)
    seen = last_seen(config)
    with explained_status_fields(config):
        if arguments.json:
            print(json.dumps({**seen.status, "age_s": seen.age_s, "is_alive": seen.is_alive}))
        else:
            print("\n".join(map(printable, _screen(seen.status, seen.age_s, is_alive=seen.is_alive))))
        return ExitCode.OK if seen.is_making_progress else ExitCode.NO


class Seen(NamedTuple):
    """The last status of the agent, its age, and whether the process is alive."""

    status: dict[str, Any]
    age_s: float
    is_alive: bool

    @property
    def is_making_progress(self) -> bool:
        return self.is_alive and bool(self.status["is_making_progress"])


def last_seen(config: Config) -> Seen:
    """Raises: ConfigError if the file is no status, FileNotFoundError if the agent never ran here, OSError."""
    try:
        status = read_status(config.status_file)
    except FileNotFoundError:
        problem = f"no status file: the agent has not run yet; start it: headgate run --config {config.path}"
        raise FileNotFoundError(errno.ENOENT, problem, str(config.status_file)) from None
    except ValueError as error:
        raise ConfigError(str(error)) from None
    with explained_status_fields(config):
        age_s = max(0.0, time.time() - status["written_at_ms"] / 1000)
        return Seen(status, age_s, age_s < max(STALE_S, 3 * config.status.every_s) and is_process(status["pid"]))


@contextmanager
def explained_status_fields(config: Config) -> Iterator[None]:
    """Reports a field of the status that is missing or of another type. Raises: ConfigError."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        problem = "written by another version of Headgate, or damaged; restart the agent"
        raise ConfigError(f"{config.status_file}: {problem}") from error


def _screen(status: dict[str, Any], age_s: float, *, is_alive: bool) -> Iterator[str]:
    device, journal = status["device"], status["journal"]
    state = "running" if is_alive and status["is_making_progress"] else "STALLED" if is_alive else "NOT RUNNING"
    yield f"{device['name']}  {device['address']}  {state}, as of {age_s:.0f} s ago"
    refused = f"refused {status['refused_readings']}, unrouted {status['unrouted_readings']}"
    yield f"readings     {status['readings']} in {status['messages']} messages; {refused}"
    if not status["clock"]["is_synchronised"]:
        yield "clock        NOT SYNCHRONISED; messages are marked, and corrected later"
    was = "" if is_alive else "was "
    for name, each in status["devices"].items():
        counted = f"{each['readings']} readings{_last(each['last'])}"
        state = f"{was}{each['state']}{_identity(each.get('identity', {}))}"
        yield f"device       {name}: {state}, {counted}{_why(each['reason'])}"
        yield from _rejected(name, each.get("rejected", {"total": 0}))
    used = f"{journal['bytes_on_disk'] / max(1, journal['max_bytes']):.0%} of {journal['max_bytes'] / 1e6:.0f} MB"
    lost = f"readings lost: {journal['shed_readings']} shed, {journal['damaged_readings']} damaged"
    yield f"journal      {used}; {lost}{_why(status['storage_problem'])}"
    for name, depth in journal["pending"].items():
        yield f"pending      {name}: {depth} readings"
    for name, link in status["links"].items():
        yield f"link         {name}: {_link(link, is_alive=is_alive)}"
    if archives := status["archives"]:
        why = _why(archives["problem"] or archives["ship_problem"])
        yield f"archives     {archives['pending']} pending, {archives['shipped']} shipped{why}"
        if log := archives.get("log"):
            yield f"device log   {describe_log(log, status['written_at_ms'])}{_why(log['problem'])}"
            if origin := describe_origin(log):
                yield f"device log   {origin}"


def _rejected(name: str, rejected: dict[str, Any]) -> Iterator[str]:
    if rejected["total"]:
        kinds = "; ".join(
            f"{each['count']} of {each['sensor']}: {each['reason']}" for each in rejected["kinds"][:MAX_KINDS]
        )
        counted = f"{name}: {rejected['total']} that could not be parsed ({printable(kinds)})"
        yield f"rejected     {counted}, see 'headgate rejected'"


def _link(link: dict[str, Any], *, is_alive: bool) -> str:
    acknowledged = f"{link['readings_acknowledged']} readings acknowledged, in {link['messages_acknowledged']} messages"
    settled = f"{acknowledged}, {link['readings_quarantined']} readings quarantined"
    if link["messages_removed"]:
        settled += f", {link['messages_removed']} messages removed at the size limit"
    if not is_alive and not link["problem"]:
        return f"closed, {settled}"
    if not link["is_up"]:
        return f"DOWN, {settled}{_why(link['problem'])}"
    return f"up, but BLOCKED, {settled}{_why(link['blocked'])}" if link["blocked"] else f"up, {settled}"


def _last(last: dict[str, Any] | None) -> str:
    return "" if last is None else f", last {last['quantity']} {last['value']} {last['unit']}".rstrip()


def _identity(identity: dict[str, str]) -> str:
    return f", {identity['device']} with firmware {identity['firmware']}" if identity else ""


def _why(reason: str) -> str:
    return f" ({reason})" if reason else ""
