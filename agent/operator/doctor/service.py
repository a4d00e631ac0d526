"""Checks that the agent is running and healthy, and that its systemd unit fits the configuration."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agent.config.configuration import Config
from agent.errors import ConfigError
from agent.operator.device_log import describe_log, describe_origin
from agent.operator.doctor.finding import Finding, Severity, error, good, warning
from agent.operator.terminal import duration_text
from agent.operator.unit_drop_in import DROP_IN_PATH, compose_drop_in, unit_properties
from agent.service.status import is_process, read_status

AREA: Final = "service"
STALE_S: Final = 60.0
MAX_CHECKPOINT_AGE_MS: Final = 900_000
NOTHING_NEEDED: Final = "[Service]\n"
START_ADVICE: Final = {
    True: "systemctl start headgate; journalctl -u headgate shows why it stopped",
    False: "start it with headgate run, or install the service with systemd/install.sh",
}  # by whether there is a unit


OUTDATED: Final = "it runs with an earlier version of the configuration file"
RELOAD_ADVICE: Final = {
    True: "systemctl reload headgate; the output lists problems, if any",
    False: "headgate reload; if it is refused, the output says why",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceFacts:
    """The last status of the agent."""

    status: dict[str, Any] | None = None
    problem: str = ""  # why there is none
    age_s: float = 0.0
    is_alive: bool = False  # its process is there
    is_configuration_current: bool = True  # it runs with the file as it is now


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitFacts:
    """The state of the systemd unit, if one is installed."""

    is_installed: bool = False
    state: str = ""  # active, inactive, failed, …
    result: str = ""
    exit_status: int = 0
    restarts: int = 0
    is_drop_in_current: bool = True
    drop_in_problem: str = ""


def gather_service(config: Config) -> ServiceFacts:
    try:
        status = read_status(config.status_file)
        age_s = max(0.0, time.time() - status["written_at_ms"] / 1000)
        is_current = status.get("configuration_sha256", config.sha256.hex()) == config.sha256.hex()
        is_alive = is_process(status["pid"])
        return ServiceFacts(status=status, age_s=age_s, is_alive=is_alive, is_configuration_current=is_current)
    except FileNotFoundError:
        return ServiceFacts(problem="the agent has never run here")
    except (OSError, ValueError, KeyError, TypeError) as refusal:
        return ServiceFacts(problem=f"cannot read the status file: {refusal}")


def judge_service(facts: ServiceFacts, *, has_unit: bool) -> list[Finding]:
    advice = START_ADVICE[has_unit]
    if facts.status is None:
        return [warning(AREA, facts.problem, advice)]
    if not facts.is_alive or facts.age_s > STALE_S:
        return [error(AREA, f"the agent is not running; its last status is {duration_text(facts.age_s)} old", advice)]
    try:
        outdated = [] if facts.is_configuration_current else [warning(AREA, OUTDATED, RELOAD_ADVICE[has_unit])]
        found = [*outdated, *_judge_running(facts.status), *_judge_parts(facts.status)]
        is_well = all(each.severity is Severity.OK for each in found)
        return [good(AREA, "running; all devices and links are up"), *found] if is_well else found
    except (KeyError, TypeError, AttributeError):
        return [warning(AREA, "the status file was written by another version", "restart the agent")]


def _judge_running(status: dict[str, Any]) -> Iterator[Finding]:
    if not status["is_making_progress"]:
        yield error(AREA, "no readings reach the disk", "check the disk (dmesg); the watchdog restarts the agent")
    if status["storage_problem"]:
        yield error(
            AREA, f"cannot write the journal: {status['storage_problem']}", "free disk space, or replace the disk"
        )
    if status["refused_readings"]:
        text = f"{status['refused_readings']} readings were dropped: too large for a message"
        yield warning(AREA, text, "journalctl -u headgate shows which; raise journal.segment_kilobytes")
    if status["unrouted_readings"]:
        text = f"{status['unrouted_readings']} readings were dropped: no [[streams]] rule matches them"
        yield warning(AREA, text, 'add a rule with driver = "*" at the end')


def _judge_parts(status: dict[str, Any]) -> Iterator[Finding]:
    for name, device in status["devices"].items():
        if device["state"] != "up":
            yield warning(AREA, f"device {name} is {device['state']}: {device['reason']}", "fix the reason given")
    for name, link in status["links"].items():
        if not link["is_up"]:
            yield warning(
                AREA,
                f"link {name} is down: {link['problem']}",
                "messages are buffered in the journal; see the findings on links",
            )
        if blocked := link.get("blocked"):
            yield error(
                AREA, f"link {name} is blocked: {blocked}", "free space on the disk, or correct the file's permissions"
            )
        if link["readings_quarantined"]:
            text = (
                f"link {name}: {link['readings_quarantined']} readings were refused by the destination and quarantined"
            )
            yield warning(AREA, text, "the reasons are in quarantine/ in the data directory")
    archives = status["archives"] or {}
    for problem in filter(None, (archives.get("problem"), archives.get("ship_problem"))):
        yield warning(AREA, f"archives: {problem}", "no archive is deleted before the collector has confirmed it")
    if log := archives.get("log"):
        yield from _judge_log(log, status["written_at_ms"])


def _judge_log(log: dict[str, Any], now_ms: int) -> Iterator[Finding]:
    yield good(AREA, f"device log {describe_log(log, now_ms)}")
    if log["checkpoint_at_ms"] is not None and now_ms - log["checkpoint_at_ms"] > MAX_CHECKPOINT_AGE_MS:
        advice = "readings are safe on this device; see the problem with archives, or the collector's log"
        yield warning(AREA, "device log: no checkpoint was accepted by the collector for long", advice)
    if log["problem"]:
        advice = "restore the collector's landing area from its backup; this device has deleted these archives"
        yield error(AREA, f"device log: {log['problem']}", advice)
    if origin := describe_origin(log):
        advice = "no reading is lost by that; if no disk was restored or copied, look for a second device with this key"
        yield warning(AREA, f"device log: {origin}", advice)


def gather_unit(config: Config, drop_in: Path = DROP_IN_PATH) -> UnitFacts:
    found = unit_properties("ActiveState", "Result", "ExecMainStatus", "NRestarts")
    if not found:
        return UnitFacts()
    is_current, problem = _compare_drop_in(config, drop_in)
    return UnitFacts(
        is_installed=True,
        state=found.get("ActiveState", ""),
        result=found.get("Result", ""),
        exit_status=int(found.get("ExecMainStatus") or 0),
        restarts=int(found.get("NRestarts") or 0),
        is_drop_in_current=is_current,
        drop_in_problem=problem,
    )


def _compare_drop_in(config: Config, drop_in: Path) -> tuple[bool, str]:
    try:
        wanted = compose_drop_in(config)
        found = drop_in.read_text() if drop_in.exists() else NOTHING_NEEDED
    except (ConfigError, OSError, UnicodeError) as refusal:
        return False, str(refusal)
    return _settings_of(found) == _settings_of(wanted), ""


def _settings_of(drop_in: str) -> list[str]:
    return [line for line in drop_in.splitlines() if not line.startswith("#")]


def judge_unit(facts: UnitFacts) -> list[Finding]:
    if not facts.is_installed:
        return [good(AREA, "no systemd unit is installed")]
    return [*_judge_state(facts), *_judge_drop_in(facts)] or [good(AREA, f"the unit is {facts.state}")]


def _judge_state(facts: UnitFacts) -> Iterator[Finding]:
    if facts.state == "failed":
        advice = "headgate check, then: systemctl reset-failed headgate && systemctl start headgate"
        yield error(AREA, f"the unit failed ({facts.result}, exit {facts.exit_status})", advice)
    elif facts.restarts:
        text = f"systemd restarted it {facts.restarts} times"
        yield warning(
            AREA, text, "journalctl -u headgate shows why; a watchdog restart means that the disk did not respond"
        )


def _judge_drop_in(facts: UnitFacts) -> Iterator[Finding]:
    if facts.drop_in_problem:
        yield error(AREA, facts.drop_in_problem, "move the paths, then: headgate systemd --write")
    elif not facts.is_drop_in_current:
        advice = "headgate systemd --write && systemctl daemon-reload && systemctl restart headgate"
        yield error(AREA, "the systemd unit denies access to ports or paths of the configuration", advice)
