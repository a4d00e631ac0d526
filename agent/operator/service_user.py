"""Checks that the user of the service can read the files that its configuration names.

Root can read everything, so a check as root says nothing about the service. Here a child process becomes the service's
user and opens each file, so that the kernel itself applies owners, groups, modes and access lists.
"""

import grp
import json
import os
import pwd
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agent.config.configuration import Config
from agent.config.files import KEY_FILE, named_files
from agent.errors import ConfigError
from agent.operator.unit_drop_in import HIDDEN_FOLDERS, unit_properties


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceUser:
    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]  # including `gid`
    is_of_unit: bool = False  # found in the unit, not named by the operator

    @property
    def group_name(self) -> str:
        return _group_name(self.gid)

    @classmethod
    def named(cls, name: str) -> "ServiceUser":
        """Raises: ConfigError if there is no such user."""
        return cls._found(name)

    @classmethod
    def of_unit(cls, name: str, group: str, more_groups: Sequence[str]) -> "ServiceUser":
        """`group` is empty for the user's own. Raises: ConfigError if there is no such user or group."""
        return replace(cls._found(name, group, more_groups), is_of_unit=True)

    @classmethod
    def _found(cls, name: str, group: str = "", more_groups: Sequence[str] = ()) -> "ServiceUser":
        try:
            entry = pwd.getpwnam(name)
            gid = grp.getgrnam(group).gr_gid if group else entry.pw_gid
            more = [grp.getgrnam(each).gr_gid for each in more_groups]
        except KeyError as error:
            missing = str(error.args[0]).rpartition(": ")[2]
            problem = f"no user or group is named {missing}; systemd-sysusers creates those of the units"
            raise ConfigError(problem) from None
        groups = tuple(sorted({*os.getgrouplist(name, gid), *more}))
        return cls(name=name, uid=entry.pw_uid, gid=gid, groups=groups)


def judged_user(configuration: Path, user_name: str | None = None) -> ServiceUser | None:
    """The user of this name, else the user of the unit. None: check for the user of this process only.

    Raises: ConfigError if there is no such user.
    """
    if user_name is not None:
        return ServiceUser.named(user_name)
    return find_service_user(configuration) if os.geteuid() == 0 else None


def service_access_problems(config: Config, user: ServiceUser | None) -> list[str]:
    """The files that this user cannot read, each with what to do. Empty for None.

    Raises: ConfigError if this process may not become that user.
    """
    if user is None or user.uid == 0:
        return []  # `check_files` reads the files as the present user
    if os.geteuid() not in (0, user.uid):
        raise ConfigError(f"only root can check access for the user {user.name}; use sudo")
    files = named_files(config)
    unreadable = unreadable_files(user, files) if os.geteuid() == 0 else {}
    return [
        *(_problem_text(setting, files[setting], barrier, user) for setting, barrier in unreadable.items()),
        *(_hidden_files(files) if user.is_of_unit else ()),
    ]


def find_service_user(configuration: Path) -> ServiceUser | None:
    """The user of the unit that runs with this configuration. None: there is no such unit, or no systemd.

    Raises: ConfigError if the unit names a user that does not exist.
    """
    found = unit_properties("User", "Group", "SupplementaryGroups", "ExecStart")
    if str(configuration.absolute()) not in found.get("ExecStart", "").split() or not found.get("User"):
        return None
    return ServiceUser.of_unit(found["User"], found.get("Group", ""), found.get("SupplementaryGroups", "").split())


def unreadable_files(user: ServiceUser, files: Mapping[str, Path]) -> dict[str, Path]:
    """The files that the user may not read, each with the file or folder that denies the access. Needs root.

    Missing files are not among them; other checks report those.

    Raises: ConfigError if this process may not become that user, as in some containers.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups(user.groups)
            os.setgid(user.gid)
            os.setuid(user.uid)
            found = {name: str(barrier) for name, path in files.items() if (barrier := _barrier(path)) is not None}
            os.write(writer, json.dumps(found).encode())
        finally:
            os._exit(0)  # also after an error, which the parent recognises by the empty answer
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        text = answer.read()
    os.waitpid(child, 0)
    if not text:
        raise ConfigError(f"cannot check for the user {user.name} from here; run: sudo -u {user.name} headgate check")
    return {name: Path(barrier) for name, barrier in json.loads(text).items()}


def _barrier(path: Path) -> Path | None:
    """The file or folder that prevents this process from reading the file; None if nothing does."""
    for folder in reversed(path.parents):
        if folder.exists() and not os.access(folder, os.X_OK):
            return folder
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except PermissionError:
        return path
    except OSError:
        return None  # missing, or not a file: the check of its content reports it
    return None


def _problem_text(setting: str, path: Path, barrier: Path, user: ServiceUser) -> str:
    status = barrier.stat()
    owner = f"{_user_name(status.st_uid)}:{_group_name(status.st_gid)} {stat.S_IMODE(status.st_mode):04o}"
    problem = f"the service's user {user.name} cannot read it ({barrier} is {owner})"
    return f"{setting}: {path}: {problem}; {_remedy(setting, barrier, user)}"


def _remedy(setting: str, barrier: Path, user: ServiceUser) -> str:
    if setting == KEY_FILE and barrier.is_dir():  # only the owner may enter a folder with keys
        return f"chown -R {user.name}:{user.group_name} {barrier}"
    if barrier.is_dir():
        return f"chgrp {user.group_name} {barrier} && chmod g+x {barrier}"
    if setting == KEY_FILE:
        return f"chown {user.name}:{user.group_name} {barrier} && chmod 600 {barrier}"
    return f"chown root:{user.group_name} {barrier} && chmod 640 {barrier}"


def _hidden_files(files: Mapping[str, Path]) -> Iterator[str]:
    """The unit has ProtectHome= and PrivateTmp=: the service does not see files there, whatever their modes."""
    for setting, path in files.items():
        if any(path.is_relative_to(folder) for folder in HIDDEN_FOLDERS):
            yield f"{setting}: {path}: the systemd unit hides this folder; move the file to /etc/headgate"


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
