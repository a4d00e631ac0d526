"""`headgate doctor`: diagnoses problems and suggests what to do."""

import argparse
import dataclasses
import json
from collections.abc import Iterator, Sequence

from agent.errors import ExitCode
from agent.operator.arguments import add_config_argument, load_named_config
from agent.operator.doctor import Finding, Severity, examine

DESCRIPTION = (
    "Check clock, disk, journal, keys, ports, links, service and hardware, and suggest what to do. It changes"
    " nothing and takes at most about 20 seconds. Exit code 1: there are errors (warnings alone give 0)."
)
MARKS = {Severity.OK: "ok", Severity.WARNING: "WARNING", Severity.ERROR: "ERROR"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


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
