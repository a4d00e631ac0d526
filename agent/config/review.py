"""Warnings about the configuration as a whole: settings that are valid but rarely intended.

`check` and `doctor` show them, `run` logs them. Each says where, what, and what to do. Contradictions, which would lose
data, are refused when the configuration is loaded.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from agent.config.configuration import Config
from agent.config.disk_space import journal_space_problems
from agent.pack.routing import StreamRule
from runtime.toml_file import dotted

USUAL_UNITS: Final = frozenset(
    ("", "Cel", "%", "V", "A", "W", "kW.h", "Hz", "Pa", "hPa", "bar", "m", "m/s", "lx", "l/min", "kg", "s", "deg")
)
"""Units that are known without loading the table of all units."""


def warnings_of(config: Config) -> list[str]:
    return [
        *_unused_rules(config.drivers, config.streams),
        *_unreadable_streams(config.streams),
        *_units(config.drivers),
        *_no_destination(config),
        *journal_space_problems(config),
        *_unmounted(config),
    ]


def _unused_rules(drivers: Iterable[str], rules: Sequence[StreamRule]) -> Iterator[str]:
    for place, rule in enumerate(rules):
        before = next((number for number in range(place) if _matches_all_of(rules[number], rule)), None)
        if not any(fnmatchcase(driver, rule.driver) for driver in drivers) and rule.driver != "*":
            yield f"streams[{place}].driver: {rule.driver!r:.60} is not a configured driver; {_hint(rule, drivers)}"
        elif before is not None:
            yield f"streams[{place}]: never used: streams[{before}] matches first; move this rule before it"


def _hint(rule: StreamRule, drivers: Iterable[str]) -> str:
    import difflib

    close = difflib.get_close_matches(rule.driver, list(drivers), n=1)
    return f"did you mean {close[0]}?" if close else "correct it, or remove the rule"


def _matches_all_of(rule: StreamRule, other: StreamRule) -> bool:
    return all(
        wide in ("*", narrow)
        for wide, narrow in (
            (rule.driver, other.driver),
            (rule.sensor, other.sensor),
            (rule.quantity, other.quantity),
        )
    )


def _unreadable_streams(rules: Sequence[StreamRule]) -> Iterator[str]:
    for place, rule in enumerate(rules):
        if rule.encryption != "none" and not rule.readers:
            yield f"streams[{place}].readers: empty: no other device can decrypt the stream; list addresses"


def _units(drivers: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    for path, unit in _units_in(drivers, "drivers"):
        if unit not in USUAL_UNITS and (problem := _unit_problem(unit)):
            yield f"{path}: {problem}"


def _unit_problem(unit: str) -> str:
    from protocol.ucum import unit_problem

    return unit_problem(unit)


def _units_in(value: object, path: str) -> Iterator[tuple[str, str]]:
    """Every setting named `unit`, at any depth; drivers use the name for units only."""
    members: Iterable[tuple[str, Any]] = ()
    if isinstance(value, Mapping):
        members = [(dotted(path, key), each) for key, each in value.items()]
    elif isinstance(value, list):
        members = [(f"{path}[{index}]", each) for index, each in enumerate(value)]
    for place, each in members:
        if isinstance(each, str) and place.endswith(".unit"):
            yield place, each
        else:
            yield from _units_in(each, place)


def _unmounted(config: Config) -> Iterator[str]:
    if config.ship is not None and config.ship.require_mount:
        from agent.ship.directory import mount_problem

        if problem := mount_problem(config.ship):
            yield f"ship.directory: {problem}"


def _no_destination(config: Config) -> Iterator[str]:
    if not config.publishers and config.archive is None:
        yield "publishers: none, and no [archive]: readings never leave the journal; add one of them"
