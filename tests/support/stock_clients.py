"""Stock JavaScript clients, as the registry has them, run with scripts of ours that use them.

A family of releases has the same API, so one script serves it: a folder in tests/integration/node_clients, whose
package.json names the release that `make test` runs. `make soak` runs every release.

| releases that are not run | reason |
|---|---|
| 2.0.2 | does not start: requires babel-runtime, which is not among its dependencies |
| 6.0 and later | find streams and permissions on a blockchain, and are nodes of the network themselves |
| pre-releases | were replaced by the release that follows |
"""

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.effort import IS_SOAK
from tests.support.npm_packages import CLIENTS, installed

__all__ = ["StockClient", "with_releases_of"]

SCENARIO_TIMEOUT_S = 120
MORE_RELEASES: Final = {
    "client0": ("0.11.2", "0.12.2"),
    "client1": (),
    "client3": (
        *("2.1.1", "2.2.1", "2.2.5", "2.2.7"),
        *("3.0.1", "3.1.0", "3.1.3"),
        *("4.1.1", "4.1.2", "4.1.3", "4.1.4", "4.1.6"),
    ),
    "client5": ("5.1.0", "5.2.1", "5.4.1", "5.4.2", "5.4.4", "5.4.5", "5.5.0", "5.5.7", "5.5.8"),
}


@dataclass(frozen=True, slots=True)
class StockClient:
    """One release of streamr-client, with the script of its family."""

    family: str
    release: str

    def __str__(self) -> str:
        return self.release

    def run(self, scenario: str, address: str, home: Path, *arguments: str) -> dict[str, Any]:
        """What the scenario found. Its script ends with that, in JSON, or with an error."""
        done = subprocess.run(
            self.command(scenario, address, *arguments),
            env=self.environment(home),
            capture_output=True,
            text=True,
            check=False,
            timeout=SCENARIO_TIMEOUT_S,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return result

    def command(self, scenario: str, address: str, *arguments: str) -> Sequence[str]:
        script, shims = CLIENTS / self.family / "scenarios.js", CLIENTS / "addon_shims.js"
        return ["node", "--require", str(shims), str(script), scenario, address, *arguments]

    def environment(self, home: Path) -> dict[str, str]:
        modules = installed(CLIENTS / self.family, self.release) / "node_modules"
        return {**os.environ, "NODE_PATH": str(modules), "HOME": str(home)}


def with_releases_of(family: str) -> pytest.MarkDecorator:
    """Run a test, in the argument `client`, with the release of `make test`, or in `make soak` with each release."""
    package = json.loads((CLIENTS / family / "package.json").read_text())
    releases = package["dependencies"]["streamr-client"], *(MORE_RELEASES[family] if IS_SOAK else ())
    clients = [StockClient(family, release) for release in releases]
    return pytest.mark.parametrize("client", clients, ids=str, scope="module")
