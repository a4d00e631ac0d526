"""Stock JavaScript clients, as the registry has them, run with a script of ours that uses them."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.npm_packages import CLIENTS, installed

SCENARIO_TIMEOUT_S = 120


def run_scenario(client: str, scenario: str, address: str, home: Path, *arguments: str) -> dict[str, Any]:
    """What the scenario found. Its script ends with that, in JSON, or with an error."""
    done = subprocess.run(
        scenario_command(client, scenario, address, *arguments),
        env=scenario_environment(client, home),
        capture_output=True,
        text=True,
        check=False,
        timeout=SCENARIO_TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def scenario_command(client: str, scenario: str, address: str, *arguments: str) -> Sequence[str]:
    script, shims = CLIENTS / client / "scenarios.js", CLIENTS / "addon_shims.js"
    return ["node", "--require", str(shims), str(script), scenario, address, *arguments]


def scenario_environment(client: str, home: Path) -> dict[str, str]:
    return {**os.environ, "NODE_PATH": str(installed(CLIENTS / client) / "node_modules"), "HOME": str(home)}
