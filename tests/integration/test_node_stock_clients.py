"""Stock JavaScript clients, as the registry has them, against a node of ours: from the newest to the oldest API."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.processes import node_arguments, running

CLIENTS = Path(__file__).parent / "node_clients"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "headgate-tests"
SCENARIO_TIMEOUT_S = 120
INSTALL_TIMEOUT_S = 600

pytestmark = [pytest.mark.slow, pytest.mark.needs("node", "nodejs"), pytest.mark.needs("npm", "npm")]


@pytest.fixture(scope="module")
def node_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(*node_arguments(tmp_path_factory.mktemp("node"))) as node:
        yield node.wait_for(r"node listens; address=(\S+)")


def run_scenario(client: str, scenario: str, address: str, home: Path) -> dict[str, Any]:
    """What the scenario found. Its script ends with that, in JSON, or with an error."""
    environment = {**os.environ, "NODE_PATH": str(_installed(client) / "node_modules"), "HOME": str(home)}
    done = subprocess.run(
        ["node", "--require", str(CLIENTS / "addon_shims.js"), "scenarios.js", scenario, address],
        cwd=CLIENTS / client,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=SCENARIO_TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def _installed(client: str) -> Path:
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


def test_client_5_logs_in_by_challenge(node_address: str, tmp_path: Path) -> None:
    result = run_scenario("client5", "login", node_address, tmp_path)

    assert result["hasToken"]
    assert result["me"] == result["address"]


def test_client_5_publishes_subscribes_verified_and_resends_in_all_three_ways(
    node_address: str, tmp_path: Path
) -> None:
    result = run_scenario("client5", "plain", node_address, tmp_path)

    assert result == {
        "before": 403,
        "sameStream": True,
        "live": [1, 2, 3, 4, 5],
        "signed": True,
        "last": [3, 4, 5],
        "from": [2, 3, 4, 5],
        "range": [2, 3, 4],
        "lastByRest": [4, 5],
        "permissions": 8,
    }


def test_client_5_is_told_why_it_may_not_subscribe(node_address: str, tmp_path: Path) -> None:
    result = run_scenario("client5", "refused", node_address, tmp_path)

    assert "You are not allowed to subscribe to stream" in result["subscribing"]
    assert result["checked"] is False


def test_client_5_subscriber_gets_the_keys_from_the_publisher_through_rotation_and_rekey(
    node_address: str, tmp_path: Path
) -> None:
    result = run_scenario("client5", "encrypted", node_address, tmp_path)

    assert result == {"live": [1, 2, 3, 4, 5, 6], "groupKeys": 3, "history": [1, 2, 3, 4, 5, 6]}


def test_client_5_fills_a_gap_by_a_resend(node_address: str, tmp_path: Path) -> None:
    result = run_scenario("client5", "gap", node_address, tmp_path)

    assert result == {"lost": [2, 3], "live": [1, 2, 3, 4, 5]}


def test_client_3_works_in_control_1_and_message_31(node_address: str, tmp_path: Path) -> None:
    result = run_scenario("client3", "plain", node_address, tmp_path)

    assert result == {
        "live": [1, 2, 3, 4, 5],
        "versions": [31],
        "last": [3, 4, 5],
        "from": [2, 3, 4, 5],
        "range": [2, 3, 4],
    }


def test_client_3_exchanges_keys_through_inbox_streams(node_address: str, tmp_path: Path) -> None:
    assert run_scenario("client3", "encrypted", node_address, tmp_path) == {"live": [1, 2, 3, 4]}


def test_client_1_works_by_the_legacy_api(node_address: str, tmp_path: Path) -> None:
    result = run_scenario("client1", "plain", node_address, tmp_path)

    assert result == {
        "live": [1, 2, 3, 4, 5],
        "all": [1, 2, 3, 4, 5],
        "last": [3, 4, 5],
        "from": [2, 3, 4, 5],
        "range": [2, 3, 4],
    }
