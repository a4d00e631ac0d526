"""Any bytes, as the configuration of an agent or a node, give a value or a `ConfigError`; any text is a unit or not."""

import contextlib
from pathlib import Path

from agent.config.configuration import _parse
from agent.config.review import warnings_of
from node.config import parse_config
from protocol.ucum import unit_problem
from runtime.errors import ConfigError
from runtime.toml_file import parse_toml
from tests.support.mutated_tables import documented_tables

SEEDS = [b"\x00[device]\nname = 'x'\n" + text.encode() for text in documented_tables()]
SEEDS += [b"\x01" + text.encode() for text in documented_tables()]
SEEDS += [b"\x02kW.h/(m2.d){net}", b"\x0210*3/ul", b"\x02/[in_i'Hg]-1"]


def fuzz_one(data: bytes) -> None:
    """The first byte chooses what the rest is."""
    kind, rest = data[:1], data[1:]
    if kind == b"\x02":
        assert unit_problem(rest.decode(errors="replace")).isprintable()
        return
    try:
        table = parse_toml(rest)
    except ValueError:
        return
    with contextlib.suppress(ConfigError):
        if kind == b"\x01":
            parse_config(table, name="node.toml")
        else:
            config, problems = _parse(table, Path("headgate.toml"), bytes(32))
            assert all(problem.isprintable() for problem in problems)
            if config is not None:
                warnings_of(config)
