"""Finds and checks the files that a configuration names."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Final

from agent.config.configuration import Config
from agent.config.page import OFF, read_token
from agent.config.review import warnings_of
from agent.errors import ConfigError, error_text
from agent.keys import DeviceKeys, find_key_file, load_keys, passphrase_from, read_key_file
from agent.keys.files import read_public_key
from agent.keys.machine import check_machine
from runtime.private_files import check_private_file

READ_SETTINGS: Final = ("file", "encrypt_to", "collector_key")  # besides those that end in _file
CONFIGURATION: Final = "the configuration"
KEY_FILE: Final = "device.key_file"
_SECRETS: Final = ("password_file", "key_file")
_OF_LINKS: Final = ("drivers.", "publishers.", "ship.ca_file")

log = logging.getLogger(__name__)


def key_file_of(config: Config) -> Path:
    """The key file: of the configuration, else a credential or $HEADGATE_KEYS, else in the data directory."""
    if config.device.key_file is not None:
        return config.device.key_file
    return find_key_file(os.environ, usual=config.device.data_directory / "keys" / "device.keys")


def open_keys(config: Config) -> DeviceKeys:
    """Raises: ConfigError, also if they are of another machine; OSError."""
    check_machine(key_file_of(config))
    return load_keys(
        key_file_of(config),
        lambda: passphrase_from(config.device.passphrase_file, os.environ, prompt="Passphrase: "),
    )


def named_files(config: Config) -> dict[str, Path]:
    """Every file that the agent reads because its configuration names it, by its setting."""
    files = {CONFIGURATION: config.path.absolute(), KEY_FILE: key_file_of(config)}
    tables: dict[str, Any] = {"device": config.device, "archive": config.archive, "ship": config.ship}
    if config.page.listen != OFF:
        tables["page"] = config.page
    tables |= {f"publishers.{name}": each for name, each in config.publishers.items()}
    for name, driver in config.build_drivers().items():
        tables[f"drivers.{name}"] = getattr(driver, "settings", None)
    for table, settings in tables.items():
        files |= {f"{table}.{name}": path for name, path in _read_paths(settings).items() if path is not None}
    return files


def _read_paths(settings: object) -> Mapping[str, Path | None]:
    if not is_dataclass(settings):
        return {}
    found = {each.name: getattr(settings, each.name) for each in fields(settings)}
    return {
        name: value.absolute()
        for name, value in found.items()
        if isinstance(value, Path) and (name.endswith("_file") or name in READ_SETTINGS)
    }


def missing_files(config: Config) -> list[str]:
    """Problems with the files of links and drivers: missing, or a secret that other users can read.

    Without such a file one link stays down or one sensor has no readings, and all else works. So `run` starts and logs
    the problem; only `check` and a reload refuse.
    """
    files = named_files(config)
    links = {setting: path for setting, path in files.items() if setting.startswith(_OF_LINKS)}
    problems = {
        setting: _absence_of(path) or (_exposure_of(path) if setting.endswith(_SECRETS) else "")
        for setting, path in links.items()
    }
    return [f"{setting}: {problem}" for setting, problem in problems.items() if problem]


def _exposure_of(path: Path) -> str:
    try:
        check_private_file(path)
    except PermissionError:
        return ""  # `service_access_problems` checks whether the service may read it
    except (ConfigError, OSError) as error:
        return error_text(error)
    return ""


def log_remarks(config: Config) -> None:
    """Log the problems and warnings that do not stop the agent."""
    for problem in missing_files(config):
        log.error("cannot use a file, and the part that needs it is disabled; %s", problem)
    for remark in warnings_of(config):
        log.warning("configuration warning; %s", remark)


def _absence_of(path: Path) -> str:
    try:
        if path.is_file():
            return ""
        what = "no such file" if not path.exists() else "not a file"
    except OSError as error:
        return error_text(error)
    return f"{path}: {what}; create it, or correct the path"


def check_files(config: Config, also: Sequence[str] = (), *, with_links: bool = True) -> None:
    """Check that the agent can use the files that its configuration names.

    `also`: problems that were found elsewhere. `with_links`: check the files of links and drivers, too.

    Raises: ConfigError with every problem.
    """
    problems = [*also, *(missing_files(config) if with_links else ()), *_unusable_files(config)]
    if problems:
        raise ConfigError(*problems, file=config.path)


def _unusable_files(config: Config) -> Iterator[str]:
    checks: dict[str, tuple[Path | None, Callable[[Path], object]]] = {
        KEY_FILE: (key_file_of(config), _check_key_file),
        "device.passphrase_file": (config.device.passphrase_file, _check_passphrase),
        "archive.encrypt_to": (config.archive.encrypt_to if config.archive else None, _check_collector_key),
        "ship.collector_key": (config.ship.collector_key if config.ship else None, _check_collector_key),
        "page.token_file": (config.page.token_file if config.page.listen != OFF else None, read_token),
    }
    for setting, (path, check) in checks.items():
        try:
            if path is not None:
                check(path)
        except PermissionError as error:
            yield f"{setting}: {error_text(error)}; only root and the agent's user may read it"
        except (ConfigError, OSError) as error:
            yield f"{setting}: {error_text(error)}"


def _check_key_file(path: Path) -> None:
    read_key_file(path)
    check_machine(path)


def _check_passphrase(path: Path) -> None:
    passphrase_from(path, os.environ, prompt="")


def _check_collector_key(path: Path) -> None:
    try:
        read_public_key(path)
    except ConfigError as error:
        raise ConfigError(f"{error}; the collector's operator can print it: headgate collector keys show") from None
