"""Whatever a configuration holds, it is good or every problem is listed with its place; nothing else comes out."""

import argparse
import contextlib
import copy
import io
import json
import re
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from agent.cli import main
from agent.config.configuration import load_config
from ingest.collector import cli as collector_cli
from ingest.collector.settings import Settings
from node.config import load_config as load_node_config
from runtime.errors import ConfigError
from tests.effort import effort, seeds
from tests.support.mutated_tables import documented_tables, mutate, tables_in, to_toml

ALL_SECTIONS = """
[device]
name = "bench"
data_directory = "data"
key_file = "device.keys"
passphrase_file = "secret"
events_stream = "{address}/{device}/events"
[journal]
directory = "journal"
max_megabytes = 64
thinned_priorities = [7]
[drivers.boiler]
driver = "system"
[drivers.meter]
driver = "modbus"
port = "tcp://10.0.0.5:502"
registers = [{quantity = "power", address = 0, unit = "W"}]
[[streams]]
stream = "{address}/{device}/{driver}"
driver = "boiler"
[[streams]]
stream = "{address}/secret"
encryption = "aes"
readers = ["0x7f3c9b1de0a54c2e8fb1d2a3c4e5f60718293a4b"]
[publishers.node]
kind = "websocket"
url = "wss://node.example:7070/api/v1/ws"
ca_file = "ca.pem"
[publishers.rest]
kind = "http"
url = "http://node.example:7070"
[publishers.broker]
kind = "mqtt"
host = "broker.example"
topic = "{stream}/{partition}"
[publishers.lines]
kind = "file"
path = "messages.jsonl"
[archive]
directory = "archives"
encrypt_to = "collector.pub"
[ship]
url = "https://collector.example:8440"
collector_key = "collector.pub"
[page]
listen = "127.0.0.1:7080"
hosts = ["gateway.local"]
[status]
every_s = 5
[log]
level = "info"
"""
NODE_SECTIONS = """
listen = "127.0.0.1:7070"
data = "node-data"
[access]
stream_creation = "own_address"
addresses = ["0x7f3c9b1de0a54c2e8fb1d2a3c4e5f60718293a4b"]
[limits]
max_connections = 10
[retention]
max_days = 30
[[streams]]
id = "pumps"
partitions = 3
publishers = ["public"]
[[api_keys]]
address = "0x7f3c9b1de0a54c2e8fb1d2a3c4e5f60718293a4b"
key_file = "key"
"""
PROBLEM = re.compile(r"  [^\s:]\S*.*: .+")  # a dotted path, and what is wrong there


def is_of_node(table: dict[str, Any]) -> bool:
    """Both have streams; those of a node have ids."""
    streams = table.get("streams", [])
    return bool({"access", "limits", "retention"} & set(table)) or any("id" in stream for stream in streams)


def agent_tables() -> list[dict[str, Any]]:
    """Every documented table, completed by what it lacks, and one with all sections."""
    complete = tomllib.loads(ALL_SECTIONS)
    tables = (tomllib.loads(text) for text in documented_tables())
    documented = [table for table in tables if not is_of_node(table) and set(table) <= set(complete)]
    return [complete, *({"device": {"name": "bench"}, **table} for table in documented)]


def node_tables() -> list[dict[str, Any]]:
    documented = [tomllib.loads(text) for text in documented_tables()]
    return [tomllib.loads(NODE_SECTIONS), *filter(is_of_node, documented)]


AGENT_TABLES = agent_tables()
NODE_TABLES = node_tables()


def refusal_of(check: Callable[[], object]) -> ConfigError | None:
    """What it is refused with; None if it is accepted."""
    try:
        check()
    except ConfigError as error:
        return error
    return None


def problems_of(load: Callable[[Path], object], path: Path, text: str) -> list[str]:
    """What is wrong, a line each; none if it is accepted."""
    path.write_text(text, encoding="utf-8")
    refusal = refusal_of(lambda: load(path))
    if refusal is None:
        return []
    heading, *lines = str(refusal).split("\n")
    assert heading.startswith(f"{path}: "), heading
    if not lines:
        assert "not TOML" in heading
        return [heading]
    assert heading.endswith(f": {len(lines)} problem{'s' * (len(lines) > 1)}"), refusal
    for line in lines:
        assert PROBLEM.fullmatch(line), line
        assert line.isprintable(), line
    return lines


def test_there_is_something_to_spoil(tmp_path: Path) -> None:
    assert len(AGENT_TABLES) > 12
    assert len(NODE_TABLES) > 1
    for table in AGENT_TABLES:
        assert not problems_of(load_config, tmp_path / "headgate.toml", to_toml(table)), table
    for table in NODE_TABLES:
        assert not problems_of(load_node_config, tmp_path / "node.toml", to_toml(table)), table


@pytest.mark.parametrize("seed", seeds(test=3, soak=400))
def test_a_spoiled_configuration_is_good_or_says_what_is_wrong(tmp_path: Path, seed: int) -> None:
    random, path = Random(seed), tmp_path / "headgate.toml"
    for _ in range(60):
        table = mutate(random.choice(AGENT_TABLES), random, random.choice([1, 1, 2, 5]))
        problems_of(load_config, path, to_toml(table))


@pytest.mark.parametrize("seed", seeds(test=2, soak=200))
def test_a_spoiled_configuration_of_a_node_is_good_or_says_what_is_wrong(tmp_path: Path, seed: int) -> None:
    random, path = Random(seed), tmp_path / "node.toml"
    for _ in range(100):
        table = mutate(random.choice(NODE_TABLES), random, random.choice([1, 1, 2, 5]))
        problems_of(load_node_config, path, to_toml(table))


@pytest.mark.parametrize("load", [load_config, load_node_config])
def test_a_file_with_a_few_bytes_changed_is_good_or_says_what_is_wrong(
    tmp_path: Path, load: Callable[[Path], object]
) -> None:
    random, path = Random(5), tmp_path / "spoiled.toml"
    text = (ALL_SECTIONS if load is load_config else NODE_SECTIONS).encode()
    for _ in range(effort(test=60, soak=20_000)):
        changed = bytearray(text)
        for _ in range(random.choice([1, 3, 10])):
            at = random.randrange(len(changed))
            changed[at : at + random.randrange(3)] = random.choice(
                [b"", b"=", b"[", b'"', b"\n", b"\xff", b"0x", b"1e", b"]"]
            )
        path.write_bytes(changed)
        with contextlib.suppress(ConfigError):
            load(path)


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 100_000,
        "a = 0x" + "f" * 5000,
        "a = " + "9" * 5000,
        "a = " + "[" * 300 + "]" * 300,
        "\x00",
        "é = 1",
    ],
)
@pytest.mark.parametrize("load", [load_config, load_node_config])
def test_a_file_that_no_parser_likes_is_refused(tmp_path: Path, load: Callable[[Path], object], text: str) -> None:
    assert problems_of(load, tmp_path / "odd.toml", text)


def test_unknown_keys_are_found_in_every_table_at_once(tmp_path: Path) -> None:
    for base, load in [
        *((each, load_config) for each in AGENT_TABLES),
        *((each, load_node_config) for each in NODE_TABLES),
    ]:
        table = copy.deepcopy(base)
        places = [(path, each) for path, each in tables_in(table) if path not in _OPEN_TABLES and not _is_open(path)]
        for _, each in places:
            each["zzz"] = 1
        lines = problems_of(load, tmp_path / "typos.toml", to_toml(table))
        missing = [
            path
            for path, _ in places
            if not any(line.startswith(f"  {path}.zzz: ".replace("  .", "  ")) for line in lines)
        ]
        assert not missing, lines


_OPEN_TABLES = {"drivers", "publishers"}  # their keys are names


def _is_open(path: str) -> bool:
    return path.endswith((".quantities", ".channels", ".sensors", ".signals"))


def test_check_itself_ends_with_0_or_78(tmp_path: Path) -> None:
    path = tmp_path / "headgate.toml"
    for seed in seeds(test=10, soak=3000):
        random = Random(seed)
        path.write_text(to_toml(mutate(random.choice(AGENT_TABLES), random, 2)), encoding="utf-8")
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(["check", "--json", "--config", str(path)])
        assert code in (0, 78), err.getvalue()
        assert (code == 0) == (not json.loads(out.getvalue())["problems"])
        assert "Traceback" not in err.getvalue()


@pytest.mark.parametrize(
    "port", ["tcp://10.0.0.5", "tcp://h:", "tcp://h:abc", "tcp://h:0", "tcp://h:70000", "tcp://a/b:1"]
)
@pytest.mark.parametrize("driver", ["modbus", "nmea", "pms5003", "serial_line", "firmware"])
def test_a_tcp_port_without_a_number_is_a_problem_like_any_other(tmp_path: Path, port: str, driver: str) -> None:
    table = {"device": {"name": "x"}, "drivers": {"a": {"driver": driver, "port": port}}}
    lines = problems_of(load_config, tmp_path / "headgate.toml", to_toml(table))
    assert any(line.startswith("  drivers.a.port: ") for line in lines), lines


@pytest.mark.parametrize(
    "template", ["{address:>999999999}", "{device!r:>999999999}", "{address.__class__}", "{device[0]}", "{}"]
)
def test_nothing_but_names_stands_in_the_braces_of_a_template(tmp_path: Path, template: str) -> None:
    table = {
        "device": {"name": "x", "events_stream": template},
        "streams": [{"stream": template}],
        "publishers": {"b": {"kind": "mqtt", "host": "h", "topic": template.replace("device", "chain")}},
    }
    lines = problems_of(load_config, tmp_path / "headgate.toml", to_toml(table))
    assert len(lines) == 3, lines


COLLECTOR_OPTIONS = [
    "--listen", "--monitoring-listen", "--landing", "--uploads", "--cert-file", "--key-file",
    "--max-archive-bytes", "--max-connections", "--max-connections-per-address", "--min-free-bytes",
    "--device-bytes-per-s", "--device-requests-per-s",
]  # fmt: skip
ODD_ARGUMENTS = [
    "",
    "0",
    "-1",
    "/",
    ".",
    "h:",
    "h:abc",
    "h:70000",
    ":1",
    "[::]:8440",
    "127.0.0.1:0",
    "٣",
    "1" * 5000,
    str(10**30),
    "é:1",
]


def collector_settings(arguments: list[str], state: Path) -> Settings:
    parser = argparse.ArgumentParser()
    collector_cli.add_arguments(parser)
    return collector_cli._settings_from(parser.parse_args(["run", "--state", str(state), *arguments]), state)


def test_odd_arguments_of_the_collector_are_good_or_say_what_is_wrong(tmp_path: Path) -> None:
    random = Random(7)
    for _ in range(effort(test=80, soak=30_000)):
        chosen = {"--listen": "127.0.0.1:0", "--landing": str(tmp_path / "landing")}
        chosen |= {
            option: random.choice(ODD_ARGUMENTS) for option in random.sample(COLLECTOR_OPTIONS, random.randint(1, 5))
        }
        arguments = [f"{option}={value}" for option, value in chosen.items()]
        with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(SystemExit):  # usage: not a number at all
            refusal = refusal_of(partial(collector_settings, arguments, tmp_path))
            assert refusal is None or all(problem and problem.isprintable() for problem in refusal.problems)


def test_all_problems_of_the_collectors_arguments_are_listed_at_once(tmp_path: Path) -> None:
    wrong = [
        "--listen=h",
        "--landing=/",
        "--max-connections=0",
        "--min-free-bytes=-1",
        "--key-file=k",
        "--monitoring-listen=:",
    ]
    with pytest.raises(ConfigError) as caught:
        collector_settings(wrong, tmp_path)
    assert len(caught.value.problems) == len(wrong), caught.value
