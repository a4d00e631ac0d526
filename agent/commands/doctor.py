"""`headgate doctor`: what is wrong around the agent, and what to do about it."""

import argparse
import dataclasses
import json
from collections.abc import Iterator, Sequence

from agent.commands.config_argument import add_config_argument, load_named_config
from agent.doctor import Finding, Severity, examine
from agent.exit_codes import ExitCode

DESCRIPTION = (
    "Look at clock, disk, journal, keys, ports, links, service and board, and say what to do. It changes nothing and"
    " takes at most some twenty seconds. The answer is 1 if there is an error; warnings alone are 0."
)
MARKS = {Severity.OK: "ok", Severity.WARNING: "WARNING", Severity.ERROR: "ERROR"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_argument(parser)
    parser.add_argument("--json", action="store_true", help="for scripts")


def run(arguments: argparse.Namespace) -> int:
    findings = examine(lambda: load_named_config(arguments))
    errors, warnings = (sum(each.severity is kind for each in findings) for kind in (Severity.ERROR, Severity.WARNING))
    if arguments.json:
        listed = [dataclasses.asdict(each) for each in findings]
        print(json.dumps({"errors": errors, "warnings": warnings, "findings": listed}))
    else:
        print("\n".join([*lines_of(findings), f"{_counted(errors, 'error')}, {_counted(warnings, 'warning')}"]))
    return ExitCode.NO if errors else ExitCode.OK


def lines_of(findings: Sequence[Finding]) -> Iterator[str]:
    for each in findings:
        yield f"{MARKS[each.severity]:<9}{each.area}: {each.text}"
        if each.advice:
            yield f"{'':<9}→ {each.advice}"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
