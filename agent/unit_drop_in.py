"""What one configuration needs beyond the unit as it is shipped, written as a systemd drop-in.

The unit gives the agent no device and no place to write but its own state directory. A configuration with serial ports,
or with paths elsewhere, gets a drop-in that opens exactly these.

A port is granted by its kind, not by its node: after re-plugging it may be another node of the same kind, and a node
that is absent when the service starts could not be granted at all. Kinds with a fixed number are written by it, for the
manager finds a name only while the kernel has its module loaded.
"""

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from agent.config import Config
from agent.errors import ConfigError
from agent.publisher_config import FileConfig

__all__ = ["DROP_IN_PATH", "compose_drop_in", "device_groups"]

DROP_IN_PATH: Final = Path("/etc/systemd/system/headgate.service.d/headgate.conf")
OWN_FOLDERS: Final = (Path("/var/lib/headgate"), Path("/run/headgate"))
MAKE_FOLDER: Final = "/usr/bin/install -d -o headgate -g headgate -m 0750"
HIDDEN_FOLDERS: Final = (Path("/home"), Path("/root"), Path("/run/user"), Path("/tmp"), Path("/var/tmp"))  # noqa: S108

MAX_SAMPLE: Final = 100  # nodes of a kind that a pattern is tried on
_NUMBERS: Final = {"ttyS": 4, "ttyACM": 166, "ttyUSB": 188, "ttyAMA": 204}  # as the kernel's list of devices fixes them
_ALIASES: Final = (
    (re.compile(r"usb:.*|/dev/serial/by-(id|path)/.*|/dev/headgate/.*"), ("ttyUSB", "ttyACM")),
    (re.compile(r"/dev/serial[0-9]"), ("ttyAMA", "ttyS")),  # the two ports on a Pi's pins
    (re.compile(r"/dev/pts/[0-9]+"), ("pts",)),
)


def compose_drop_in(config: Config) -> str:
    """The text of the drop-in. Raises: ConfigError for a path that the unit hides from the agent."""
    ports = {name: driver.ports for name, driver in config.build_drivers().items() if driver.ports}
    kept, written = _outside(_kept_folders(config)), _outside(_kept_folders(config) | _target_folders(config))
    _refuse_hidden(config)
    lines = [
        f"# Made by `headgate systemd` from {_quoted(config.path)}; make it again when ports or paths in there change.",
        "[Service]",
        *_device_lines(ports),
        *(f"ExecStartPre=+{MAKE_FOLDER} {_quoted(folder).replace('$', '$$')}" for folder in kept),
        *(f"ReadWritePaths={_quoted(folder, prefix='-')}" for folder in written),
        *(["[Unit]"] if kept else []),
        *(f"RequiresMountsFor={_quoted(folder)}" for folder in kept),
    ]
    return "\n".join(lines) + "\n"


def device_groups(port: str) -> list[str]:
    """What `DeviceAllow=` wants for a port as the settings name it."""
    for pattern, kinds in _ALIASES:
        if pattern.fullmatch(port):
            return [_group(kind) for kind in kinds]
    kind = re.fullmatch(r"/dev/(tty[A-Za-z]+)[0-9]+", port)
    if kind is None and re.search(r"[*?[]", port):
        return [
            _group(kind) for kind in _NUMBERS if any(fnmatchcase(f"/dev/{kind}{n}", port) for n in range(MAX_SAMPLE))
        ]
    return [_group(kind[1])] if kind else [port]


def _group(kind: str) -> str:
    return f"char-{_NUMBERS.get(kind, kind)}"


def _device_lines(ports: Mapping[str, Sequence[str]]) -> list[str]:
    if not ports:
        return []
    groups = {group: None for each in ports.values() for port in each for group in device_groups(port)}
    return [
        *(f"# {name}: {' '.join(each)}" for name, each in ports.items()),
        "PrivateDevices=no",
        "DevicePolicy=closed",
        "SupplementaryGroups=dialout",
        *(f"DeviceAllow={_quoted(group)} rw" for group in groups),
    ]


def _kept_folders(config: Config) -> dict[str, Path]:
    """What the agent keeps for itself, and makes if it is missing."""
    folders = {"device.data_directory": config.device.data_directory, "journal.directory": config.journal_directory}
    if config.archive:
        folders["archive.directory"] = config.archive_directory
    return folders


def _target_folders(config: Config) -> dict[str, Path]:
    """Where it writes for others. They may be absent, as a stick is that someone carries."""
    folders = {"status.file": config.status_file.parent}
    if config.ship and config.ship.directory:
        folders["ship.directory"] = config.ship.directory
    for name, publisher in config.publishers.items():
        if isinstance(publisher, FileConfig):
            folder = publisher.path if publisher.form == "directory" else publisher.path.parent
            folders[f"publishers.{name}.path"] = folder
    return folders


def _refuse_hidden(config: Config) -> None:
    folders = _kept_folders(config) | _target_folders(config)
    hidden = [
        f"{setting}: {folder}" for setting, folder in folders.items() if _is_below(folder.absolute(), HIDDEN_FOLDERS)
    ]
    if hidden:
        raise ConfigError(
            "\n  ".join([f"{config.path}: the service cannot reach these; move them below /var/lib/headgate", *hidden])
        )


def _outside(folders: Mapping[str, Path]) -> list[Path]:
    """Those that the unit does not open by itself, the uppermost only."""
    absolute = {folder.absolute() for folder in folders.values()}
    outside = sorted(folder for folder in absolute if not _is_below(folder, OWN_FOLDERS))
    return [folder for folder in outside if not _is_below(folder.parent, outside)]


def _is_below(folder: Path, others: Sequence[Path]) -> bool:
    return any(folder.is_relative_to(other) for other in others)


def _quoted(text: object, prefix: str = "") -> str:
    """One word for the unit's parser, in which % begins a specifier. The prefix `-`: it may be absent."""
    word = str(text).replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("\n", "\\n")
    return f'"{prefix}{word}"' if re.search(r"[\s\"'\\]", word) else prefix + word
