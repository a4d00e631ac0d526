"""`headgate probe`: read a few values from one device and print them."""

import argparse
import asyncio
import os
import sys
import tomllib
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson

from drivers.contract import Driver
from drivers.errors import ConfigError, DeviceError
from drivers.reading import Reading
from drivers.registry import build_driver
from protocol.shown_text import printable
from runtime.toml_file import read_toml

DESCRIPTION = "Read a few values from one device. No reading is acknowledged, and nothing is stored or published."
EPILOG = """examples:
  headgate probe system
  headgate probe nmea port=/dev/serial/by-id/usb-u-blox_AG-if00
  headgate probe modbus port=tcp://10.0.0.5:502 'registers=[{quantity="power", address=0, unit="W"}]'
  headgate probe --config /etc/headgate/headgate.toml boiler
"""

SHOWN_BYTES: Final = 32


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument(
        "what", metavar="DRIVER", help="name of a driver; with --config, name of a [drivers.NAME] table"
    )
    parser.add_argument(
        "settings", nargs="*", metavar="KEY=VALUE", help="driver setting in TOML syntax; dotted keys for nested tables"
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="read the settings from this configuration file")
    parser.add_argument("--count", type=int, default=10, metavar="N", help="readings to print (default: 10)")
    parser.add_argument(
        "--timeout", type=float, default=15.0, metavar="S", help="seconds to wait for readings (default: 15)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per line")


def run(arguments: argparse.Namespace) -> int:
    table = _table_of(arguments.config, arguments.what) if arguments.config else {"driver": arguments.what}
    for setting in arguments.settings:
        _set(table, setting)
    driver = build_driver(arguments.what, _as_separate_client(table), arguments.what)
    asyncio.run(_show_readings(driver, arguments.count, arguments.timeout, as_json=arguments.json))
    return 0


async def _show_readings(driver: Driver, count: int, timeout_s: float, *, as_json: bool) -> None:
    shown = 0
    try:
        async with asyncio.timeout(timeout_s):
            await driver.open()
            while shown < count:
                readings = (await driver.read())[: count - shown]
                _show(readings, as_json=as_json)
                shown += len(readings)
    except TimeoutError:
        if not shown:
            trouble = f"; {driver.trouble}" if driver.trouble else ""
            raise DeviceError(f"{driver.name}: no reading within {timeout_s:g} s{trouble}; try --timeout") from None
    finally:
        if driver.trouble:
            print(f"headgate: {driver.name}: {driver.trouble}", file=sys.stderr)
        await driver.close()


def _show(readings: Iterable[Reading], *, as_json: bool) -> None:
    for reading in readings:
        print(_as_json(reading) if as_json else _as_row(reading), flush=True)


def _as_row(reading: Reading) -> str:
    at = datetime.fromtimestamp(reading.taken_at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return printable(f"{at}  {reading.sensor:<16} {reading.quantity:<24} {_shown(reading)}".rstrip())


def _shown(reading: Reading) -> str:
    if isinstance(reading.value, bytes):
        cut = "…" if len(reading.value) > SHOWN_BYTES else ""
        return f"{reading.value[:SHOWN_BYTES]!r}{cut} {reading.mime_type}, {len(reading.value)} bytes"
    return f"{reading.value} {reading.unit}"


def _as_json(reading: Reading) -> str:
    fields: dict[str, Any] = {name: value for name, value in reading._asdict().items() if name != "token"}
    if isinstance(reading.value, bytes):
        fields["value"] = reading.value.hex()
    return orjson.dumps(fields).decode()


def _table_of(config: Path, name: str) -> dict[str, Any]:
    document, _ = read_toml(config)
    drivers = document.get("drivers")
    tables = drivers if isinstance(drivers, dict) else {}
    if not isinstance(table := tables.get(name), dict):
        raise ConfigError(f"{config}: there is no table [drivers.{name}]; there are {', '.join(tables) or 'none'}")
    return table


def _set(table: dict[str, Any], setting: str) -> None:
    """quantities.temperature.unit=Cel ──► into the tables."""
    path, equals, text = setting.partition("=")
    *tables, key = path.split(".")
    if not equals or not all([*tables, key]):
        raise ConfigError(f"{setting!r:.60} is not a setting; write KEY=VALUE")
    for name in tables:
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise ConfigError(f"{path}: {name} is not a table")
    table[key] = _value_of(text)


def _value_of(text: str) -> Any:
    """Parsed as TOML; anything else is a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def _as_separate_client(table: dict[str, Any]) -> dict[str, Any]:
    """An MQTT client id of its own and no session: the agent's session must not end, and the broker stores nothing."""
    if table.get("driver") != "mqtt":
        return table
    return {**table, "client_id": f"headgate-probe-{os.getpid()}", "session_expiry_s": 0}
