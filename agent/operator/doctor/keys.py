"""Checks that the keys are usable and belong to the running device."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agent.errors import error_text
from agent.keys import DeviceKeys, binding_as_json, read_binding, read_key_file
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


def gather_keys(file: Path, unlock: Callable[[], DeviceKeys] | None, running_address: str) -> KeyFacts:
    """`unlock` is None if it would prompt for the passphrase."""
    try:
        key_file, binding = read_key_file(file), read_binding(file)
        can_unlock = None if unlock is None else bool(unlock())
    except (HeadgateError, OSError) as refusal:
        return KeyFacts(file=file, problem=error_text(refusal))
    return KeyFacts(
        file=file,
        address=binding_as_json(binding)["device"],
        has_passphrase=key_file.has_passphrase,
        can_unlock=can_unlock,
        running_address=running_address,
    )


def judge_keys(facts: KeyFacts) -> Iterator[Finding]:
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
