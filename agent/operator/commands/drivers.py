"""`headgate drivers`: lists the drivers and their settings."""

import argparse
import dataclasses
import json
import textwrap
from collections.abc import Iterator, Sequence

from agent.config.reference import Setting, every_setting_of
from agent.errors import ExitCode
from drivers.registry import DRIVERS, WITH_OWN_SILENCE, CommonSettings, readme_summary, sample_of, schema_of

DESCRIPTION = (
    "List the drivers, or show the settings of one with a sample configuration. 'headgate devices' lists what"
    " is attached to this machine, with the settings to read it."
)
WIDTH = 110
COLUMN = 14


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="driver to describe, such as modbus (default: list all)"
    )
    parser.add_argument(
        "--sample", action="store_true", help="with NAME: print only the sample, to append to a configuration"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    name: str | None = arguments.name
    if name is None:
        summaries = {each: readme_summary(each) for each in DRIVERS}
        print(json.dumps(summaries) if arguments.json else "\n".join(_list(summaries)))
    elif arguments.sample:
        print(sample_of(name), end="")
    else:
        common = () if name in WITH_OWN_SILENCE else every_setting_of(CommonSettings)
        settings = [*every_setting_of(schema_of(name)), *common]
        print(_as_json(name, settings) if arguments.json else "\n".join(_describe(name, settings)))
    return ExitCode.OK


def _list(summaries: dict[str, str]) -> Iterator[str]:
    for name, summary in summaries.items():
        indent = " " * COLUMN
        yield textwrap.fill(f"{name:<{COLUMN}}{summary}", WIDTH, subsequent_indent=indent, break_on_hyphens=False)
    yield "'headgate drivers NAME' shows the settings of a driver."


def _as_json(name: str, settings: Sequence[Setting]) -> str:
    listed = [dataclasses.asdict(each) for each in settings]
    facts = {"driver": name, "summary": readme_summary(name), "settings": listed, "sample": sample_of(name)}
    return json.dumps(facts)


def _describe(name: str, settings: Sequence[Setting]) -> Iterator[str]:
    yield textwrap.fill(f"{name}: {readme_summary(name)}", WIDTH, break_on_hyphens=False)
    yield f'\nsettings of [drivers.NAME] with driver = "{name}"; dotted names are nested tables:\n'
    width = max((len(each.name) for each in settings), default=0)
    for each in settings:
        default = {"required": "required", "none": "optional"}.get(each.default, f"default {each.default}")
        facts = "; ".join(filter(None, (each.takes, default, each.meaning))).replace("`", "")
        yield textwrap.fill(f"  {each.name:<{width}}  {facts}", WIDTH, subsequent_indent=" " * (width + 4))
    yield f"\nsample (## is an explanation, # shows a setting at its default):\n\n{sample_of(name)}"
