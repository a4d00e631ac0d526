"""The files that a configuration names: which key file is meant, and whether each can be used."""

import os
from pathlib import Path

from agent.config import Config
from agent.errors import ConfigError, in_words
from agent.keys import DeviceKeys, find_key_file, load_keys, passphrase_from, read_key_file
from agent.page_config import OFF
from agent.public_key_file import read_public_key

__all__ = ["check_files", "key_file_of", "open_keys"]


def key_file_of(config: Config) -> Path:
    """Named in the configuration, else handed in or named by the environment, else below the data directory."""
    if config.device.key_file is not None:
        return config.device.key_file
    return find_key_file(os.environ, usual=config.device.data_directory / "keys" / "device.keys")


def open_keys(config: Config) -> DeviceKeys:
    """Raises: ConfigError, OSError."""
    return load_keys(
        key_file_of(config),
        lambda: passphrase_from(config.device.passphrase_file, os.environ, prompt="Passphrase: "),
    )


def check_files(config: Config) -> None:
    """Raises: ConfigError with every file that cannot be used."""
    problems = []
    try:
        read_key_file(key_file_of(config))
    except PermissionError as error:
        problems.append(f"device.key_file: {in_words(error)}; only root and the agent's own user may read it")
    except (ConfigError, OSError) as error:
        problems.append(f"device.key_file: {in_words(error)}")
    keys = {
        "archive.seal_to": config.archive.seal_to if config.archive else None,
        "ship.collector_key": config.ship.collector_key if config.ship else None,
    }
    for name, path in keys.items():
        if path is not None:
            try:
                read_public_key(path)
            except ConfigError as error:
                problems.append(f"{name}: {error}")
    if config.page.listen != OFF and config.page.token_file is not None:
        from agent.page.access import read_token

        try:
            read_token(config.page.token_file)
        except ConfigError as error:
            problems.append(f"page.token_file: {error}")
    if problems:
        counted = f"{len(problems)} problem{'' if len(problems) == 1 else 's'} with files"
        raise ConfigError("\n  ".join([f"{config.path}: {counted}", *problems]))
