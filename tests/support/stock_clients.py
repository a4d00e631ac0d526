"""Stock JavaScript clients, as the registry has them, run with a script of ours that uses them."""

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

CLIENTS = Path(__file__).parents[1] / "integration" / "node_clients"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "headgate-tests"
SCENARIO_TIMEOUT_S = 120
INSTALL_TIMEOUT_S = 600


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
    return {**os.environ, "NODE_PATH": str(installed(client) / "node_modules"), "HOME": str(home)}


def installed(client: str) -> Path:
    """The folder with the client, installed once for all runs. Its native parts are left out: see addon_shims.js."""
    manifest = CLIENTS / client / "package.json"
    (name, version), *_ = json.loads(manifest.read_text())["dependencies"].items()
    folder = CACHE / f"{name}-{version}"
    if not folder.exists():
        making = folder.with_name(f"{folder.name}.{os.getpid()}")
        making.mkdir(parents=True)
        shutil.copy(manifest, making)
        command = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(command, cwd=making, check=True, capture_output=True, timeout=INSTALL_TIMEOUT_S)
        making.rename(folder)
    return folder
