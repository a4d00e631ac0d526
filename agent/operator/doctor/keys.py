"""Checks that the keys are usable and belong to the running device."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agent.config.configuration import Config
from agent.errors import ConfigError, error_text
from agent.keys import DeviceKeys, binding_as_json, read_binding, read_key_file
from agent.keys.files import read_public_key
from agent.operator.doctor.finding import Finding, error, good, warning
from protocol.errors import HeadgateError

AREA: Final = "keys"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFacts:
    file: Path
    problem: str = ""
    address: str = ""
    has_passphrase: bool = False
    can_unlock: bool | None = None  # None: not tried, because the passphrase is not available
    running_address: str = ""  # of the running agent; "" if none runs
    public_key_problems: tuple[str, ...] = ()


def gather_keys(config: Config, file: Path, unlock: Callable[[], DeviceKeys] | None, running_address: str) -> KeyFacts:
    """`unlock` is None if it would prompt for the passphrase."""
    others = tuple(_public_key_problems(config))
    try:
        key_file, binding = read_key_file(file), read_binding(file)
        can_unlock = None if unlock is None else bool(unlock())
    except (HeadgateError, OSError) as refusal:
        return KeyFacts(file=file, problem=error_text(refusal), public_key_problems=others)
    return KeyFacts(
        file=file,
        address=binding_as_json(binding)["device"],
        has_passphrase=key_file.has_passphrase,
        can_unlock=can_unlock,
        running_address=running_address,
        public_key_problems=others,
    )


def _public_key_problems(config: Config) -> Iterator[str]:
    named = {
        "archive.encrypt_to": config.archive.encrypt_to if config.archive else None,
        "ship.collector_key": config.ship.collector_key if config.ship else None,
    }
    for setting, path in named.items():
        try:
            if path is not None:
                read_public_key(path)
        except ConfigError as refusal:
            yield f"{setting}: {refusal}"


def judge_keys(facts: KeyFacts) -> list[Finding]:
    return [*_judge_own(facts), *(_bad_public_key(problem) for problem in facts.public_key_problems)]


def _judge_own(facts: KeyFacts) -> Iterator[Finding]:
    if facts.problem:
        yield error(AREA, facts.problem, "restore the file from a backup, or create keys with headgate keys init")
        return
    if facts.running_address and facts.running_address != facts.address:
        text = f"{facts.file} belongs to {facts.address}, but the running agent is {facts.running_address}"
        yield error(AREA, text, "restart the agent, or restore the key file it was started with")
    if facts.has_passphrase and facts.can_unlock is None:
        advice = (
            "the service reads it from /etc/credstore/headgate.passphrase; set device.passphrase_file to test it here"
        )
        yield warning(AREA, f"{facts.file} has a passphrase, which was not tested", advice)
    else:
        yield good(AREA, f"{facts.file}: device {facts.address}")


def _bad_public_key(problem: str) -> Finding:
    return error(AREA, problem, "ask the collector's operator for the key: headgate collector keys show")
