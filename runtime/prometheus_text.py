"""The text format of Prometheus, version 0.0.4.

    # HELP headgate_agent_link_up 1 while the link is up.
    # TYPE headgate_agent_link_up gauge
    headgate_agent_link_up{link="node"} 1

A family is one metric with its samples, which differ in their labels. Names and label names are chosen by a program;
help texts and label values may come from outside and are escaped.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, NamedTuple

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
COUNTER_ENDING: Final = "_total"

Kind = Literal["counter", "gauge"]
Sample = tuple[Mapping[str, str], float | None]  # labels and value; None: not known, so left out


class Family(NamedTuple):
    name: str
    kind: Kind
    samples: Iterable[Sample]
    help: str = ""


def counter(name: str, samples: Iterable[Sample] | float, help_text: str = "") -> Family:
    """A metric that only rises. Its name ends in `_total`, as the conventions of Prometheus require.

    Raises: ValueError if the name does not.
    """
    if not name.endswith(COUNTER_ENDING):
        raise ValueError(f"{name}: the name of a counter ends in {COUNTER_ENDING}")
    return _family(name, "counter", samples, help_text)


def gauge(name: str, samples: Iterable[Sample] | float, help_text: str = "") -> Family:
    return _family(name, "gauge", samples, help_text)


def of_one_label(label: str, values: Mapping[str, float | None]) -> list[Sample]:
    return [({label: name}, value) for name, value in values.items()]


def encode_families(families: Iterable[Family]) -> bytes:
    """A family without a known value is left out."""
    lines = [line for family in families for line in _lines(family)]
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def _family(name: str, kind: Kind, samples: Iterable[Sample] | float, help_text: str) -> Family:
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of a metric: letters, digits and _, no digit first")
    return Family(name, kind, [({}, samples)] if isinstance(samples, int | float) else samples, help_text)


def _lines(family: Family) -> Iterator[str]:
    known = [(labels, value) for labels, value in family.samples if value is not None]
    if not known:
        return
    if family.help:
        yield f"# HELP {family.name} {_escape(family.help)}"
    yield f"# TYPE {family.name} {family.kind}"
    for labels, value in known:
        yield f"{family.name}{_labels(labels)} {_number(value)}"


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape_label(value)}"' for name, value in labels.items()) + "}"


def _escape_label(value: str) -> str:
    return _escape(value).replace('"', '\\"')


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if isinstance(value, int) else repr(value)
