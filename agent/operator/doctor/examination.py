"""Runs all checks in parallel, within a bounded time, even if one hangs or fails."""

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial
from typing import Final, NamedTuple

from agent.config.configuration import Config
from agent.config.files import check_files, key_file_of, missing_files, open_keys
from agent.config.review import warnings_of
from agent.errors import ConfigError, error_text
from agent.keys import DeviceKeys, read_key_file
from agent.keys.passphrase import PASSPHRASE_CREDENTIAL, find_credential
from agent.operator.doctor.connections import (
    LinkTarget,
    gather_link,
    gather_ports,
    judge_link,
    judge_port,
    link_targets,
)
from agent.operator.doctor.finding import Finding, error, good, warning
from agent.operator.doctor.keys import gather_keys, judge_keys
from agent.operator.doctor.machine import gather_clock, gather_machine, judge_clock, judge_machine
from agent.operator.doctor.service import gather_service, gather_unit, judge_service, judge_unit
from agent.operator.doctor.storage import (
    gather_disks,
    gather_journal,
    gather_set_aside,
    judge_disk,
    judge_journal,
    judge_set_aside,
)
from agent.operator.service_user import ServiceUser, judged_user, service_access_problems
from protocol.errors import HeadgateError
from runtime.private_files import judging_for_group

DEADLINE_S: Final = 20.0


class Check(NamedTuple):
    area: str
    run: Callable[[], list[Finding]]


def examine(load: Callable[[], Config]) -> list[Finding]:
    """All findings. A configuration that does not load is a finding; checks that need it are then left out."""
    general = [
        Check("clock", lambda: judge_clock(gather_clock())),
        Check("machine", lambda: judge_machine(gather_machine())),
    ]
    try:
        config = load()
    except (ConfigError, OSError) as problem:
        advice = "correct it and run headgate check, or create one with headgate init"
        return [error("configuration", error_text(problem), advice), *run_checks(general)]
    user, unknown = _judged_user(config)
    with judging_for_group(None if user is None else user.gid):
        return [*unknown, *_judge_configuration(config, user), *run_checks([*general, *_checks(config)])]


def _judged_user(config: Config) -> tuple[ServiceUser | None, list[Finding]]:
    try:
        return judged_user(config.path), []
    except ConfigError as problem:
        return None, [error("service", error_text(problem), "the service cannot start before that")]


def _judge_configuration(config: Config, user: ServiceUser | None) -> list[Finding]:
    missing = [
        error("configuration", problem, "the part that needs it is disabled until it exists")
        for problem in missing_files(config)
    ]
    remarks = [
        warning("configuration", remark, "correct it, then run headgate check") for remark in warnings_of(config)
    ]
    return [_judge_files(config, user), *missing, *remarks]


def _judge_files(config: Config, user: ServiceUser | None) -> Finding:
    """Before any thread begins: to judge for the service's user, a child process becomes that user."""
    try:
        check_files(config, also=service_access_problems(config, user), with_links=False)
    except (ConfigError, OSError) as problem:
        return error("configuration", error_text(problem), "the service does not start again until this is fixed")
    return good("configuration", f"{config.path} is valid")


def _checks(config: Config) -> list[Check]:
    keys = _Unlocked(config) if _can_unlock(config) else None

    def check_keys() -> list[Finding]:
        running = (gather_service(config).status or {}).get("device", {}).get("address", "")
        return list(judge_keys(gather_keys(key_file_of(config), keys, running)))

    def check_ports() -> list[Finding]:
        own_pid = (gather_service(config).status or {}).get("pid", 0)
        return [each for facts in gather_ports(config, {own_pid, os.getpid()}) for each in judge_port(facts)]

    def check_service() -> list[Finding]:
        unit = gather_unit(config)
        return [*judge_service(gather_service(config), has_unit=unit.is_installed), *judge_unit(unit)]

    return [
        Check("disk", lambda: [each for facts in gather_disks(config) for each in judge_disk(facts)]),
        Check("disk", lambda: judge_set_aside(gather_set_aside(config))),
        Check("journal", lambda: judge_journal(gather_journal(config))),
        Check("keys", check_keys),
        Check("port", check_ports),
        *(Check(f"link {end.name}", partial(_check_link, end, keys)) for end in link_targets(config)),
        Check("service", check_service),
    ]


def _check_link(end: LinkTarget, keys: "_Unlocked | None") -> list[Finding]:
    return judge_link(gather_link(end, keys))


def run_checks(checks: Sequence[Check], deadline_s: float = DEADLINE_S) -> list[Finding]:
    """Run the checks in parallel, each in a thread that is abandoned at the deadline."""
    answers: dict[int, list[Finding]] = {}
    until_s = time.monotonic() + deadline_s

    def answer(number: int) -> None:
        answers[number] = _guarded(checks[number])

    threads = [
        threading.Thread(target=copy_context().run, args=(answer, number), daemon=True) for number in range(len(checks))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until_s - time.monotonic()))
    late = f"no answer within {deadline_s:g} s"
    return [
        finding
        for number, check in enumerate(checks)
        for finding in answers.get(
            number, [warning(check.area, late, "a disk or a name server may be hanging; check dmesg")]
        )
    ]


def _guarded(check: Check) -> list[Finding]:
    try:
        return check.run()
    except Exception as bug:  # noqa: BLE001 - the other checks must not suffer, and this one says what happened
        return [error(check.area, f"the check itself failed: {bug!r}", "please report it")]


class _Unlocked:
    """The device's keys, decrypted once, on first use."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._keys: DeviceKeys | None = None

    def __call__(self) -> DeviceKeys:
        """Raises: HeadgateError, OSError."""
        with self._lock:
            self._keys = self._keys or open_keys(self._config)
            return self._keys


def _can_unlock(config: Config) -> bool:
    """Whether the keys can be decrypted without prompting for a passphrase."""
    try:
        has_passphrase = read_key_file(key_file_of(config)).has_passphrase
    except (HeadgateError, OSError):
        return False  # the check of the keys reports the problem
    is_credential = find_credential(os.environ, PASSPHRASE_CREDENTIAL) is not None
    return not has_passphrase or is_credential or config.device.passphrase_file is not None
