"""All areas at once, within a bounded time, whatever hangs or breaks."""

import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from agent.config import Config
from agent.doctor.clock import gather_clock, judge_clock
from agent.doctor.finding import Finding, error, good, warning
from agent.doctor.keys import gather_keys, judge_keys
from agent.doctor.links import FarEnd, far_ends, gather_link, judge_link
from agent.doctor.machine import gather_machine, judge_machine
from agent.doctor.ports import gather_ports, judge_port
from agent.doctor.service import gather_service, gather_unit, judge_service, judge_unit
from agent.doctor.storage import gather_disks, gather_journal, judge_disk, judge_journal
from agent.errors import ConfigError, in_words
from agent.keys import DeviceKeys, read_key_file
from agent.keys.passphrase import PASSPHRASE_CREDENTIAL, find_credential
from agent.service import key_file_of, open_keys
from protocol.errors import HeadgateError

__all__ = ["Check", "examine", "perform"]

DEADLINE_S: Final = 20.0


class Check(NamedTuple):
    area: str
    look: Callable[[], list[Finding]]


def examine(load: Callable[[], Config]) -> list[Finding]:
    """Everything there is to say. A configuration that does not load is a finding, and ends what depends on it."""
    general = [
        Check("clock", lambda: judge_clock(gather_clock())),
        Check("machine", lambda: judge_machine(gather_machine())),
    ]
    try:
        config = load()
    except (ConfigError, OSError) as problem:
        advice = "edit it, then headgate check; or write one with headgate init"
        return [error("configuration", in_words(problem), advice), *perform(general)]
    return [good("configuration", f"{config.path} is good"), *perform([*general, *_checks(config)])]


def _checks(config: Config) -> list[Check]:
    keys = _Unlocked(config) if _can_unlock(config) else None

    def look_at_keys() -> list[Finding]:
        running = (gather_service(config).status or {}).get("device", {}).get("address", "")
        return judge_keys(gather_keys(config, key_file_of(config), keys, running))

    def look_at_ports() -> list[Finding]:
        own_pid = (gather_service(config).status or {}).get("pid", 0)
        return [each for facts in gather_ports(config, {own_pid, os.getpid()}) for each in judge_port(facts)]

    def look_at_service() -> list[Finding]:
        unit = gather_unit(config)
        return [*judge_service(gather_service(config), has_unit=unit.is_installed), *judge_unit(unit)]

    return [
        Check("disk", lambda: [each for facts in gather_disks(config) for each in judge_disk(facts)]),
        Check("journal", lambda: judge_journal(gather_journal(config))),
        Check("keys", look_at_keys),
        Check("port", look_at_ports),
        *(Check(f"link {end.name}", partial(_look_at_link, end, keys)) for end in far_ends(config)),
        Check("service", look_at_service),
    ]


def _look_at_link(end: FarEnd, keys: "_Unlocked | None") -> list[Finding]:
    return judge_link(gather_link(end, keys))


def perform(checks: Sequence[Check], deadline_s: float = DEADLINE_S) -> list[Finding]:
    """Side by side, each in a thread that is left behind if it does not come back in time."""
    answers: dict[int, list[Finding]] = {}
    until_s = time.monotonic() + deadline_s

    def answer(number: int) -> None:
        answers[number] = _guarded(checks[number])

    threads = [threading.Thread(target=answer, args=(number,), daemon=True) for number in range(len(checks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until_s - time.monotonic()))
    late = f"no answer within {deadline_s:g} s"
    return [
        finding
        for number, check in enumerate(checks)
        for finding in answers.get(
            number, [warning(check.area, late, "a disk or a name server may hang; look at dmesg")]
        )
    ]


def _guarded(check: Check) -> list[Finding]:
    try:
        return check.look()
    except Exception as bug:  # noqa: BLE001 - the other checks must not suffer, and this one says what happened
        return [error(check.area, f"the check itself failed: {bug!r}", "please report it")]


class _Unlocked:
    """The device's keys, unlocked once, by whoever asks first."""

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
    """Whether nobody would have to be asked for a passphrase."""
    try:
        has_passphrase = read_key_file(key_file_of(config)).has_passphrase
    except (HeadgateError, OSError):
        return False  # what is wrong with it, the area of the keys tells
    is_handed_in = find_credential(os.environ, PASSPHRASE_CREDENTIAL) is not None
    return not has_passphrase or is_handed_in or config.device.passphrase_file is not None
