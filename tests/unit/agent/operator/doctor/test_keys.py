import os
import secrets
from dataclasses import replace
from pathlib import Path

import pytest

from agent.keys import DeviceKeys, create_key_file, load_keys
from agent.keys.secret import Secret
from agent.operator.doctor.finding import Severity
from agent.operator.doctor.keys import KeyFacts, gather_keys, judge_keys

FILE = Path("/keys/device.keys")
GOOD = KeyFacts(file=FILE, address="0x1", can_unlock=True)


@pytest.mark.parametrize(
    ("facts", "severity", "word"),
    [
        (GOOD, Severity.OK, "0x1"),
        (KeyFacts(file=FILE, problem="others can read it"), Severity.ERROR, "others can read it"),
        (replace(GOOD, running_address="0x2"), Severity.ERROR, "agent is 0x2"),
        (replace(GOOD, has_passphrase=True, can_unlock=None), Severity.WARNING, "not tested"),
        (replace(GOOD, has_passphrase=True, running_address="0x1"), Severity.OK, "0x1"),
    ],
)
def test_keys_are_judged(facts: KeyFacts, severity: Severity, word: str) -> None:
    finding = next(judge_keys(facts))
    assert finding.severity is severity
    assert word in finding.text


def test_keys_are_read_unlocked_and_matched(tmp_path: Path) -> None:
    file = tmp_path / "keys" / "device.keys"
    create_key_file(file, DeviceKeys.generate(secrets.token_bytes), None)
    facts = gather_keys(file, lambda: load_keys(file, lambda: Secret(b"")), "")
    assert facts.address.startswith("0x")
    assert facts.can_unlock
    file.chmod(0o644)
    assert "others can read or change it" in gather_keys(file, None, "").problem
    os.truncate(file, 50)
    file.chmod(0o600)
    assert gather_keys(file, None, "").problem
