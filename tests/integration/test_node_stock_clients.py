"""Stock JavaScript clients, as the registry has them, against a node of ours: from the newest to the oldest API."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.processes import node_arguments, running
from tests.support.stock_clients import run_scenario

pytestmark = [pytest.mark.slow, pytest.mark.needs("node", "nodejs"), pytest.mark.needs("npm", "npm")]


@pytest.fixture(scope="module")
def node_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(*node_arguments(tmp_path_factory.mktemp("node"))) as node:
        yield node.wait_for(r"node listens; address=(\S+)")


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


def test_client_5_learns_why_it_may_not_subscribe(node_address: str, tmp_path: Path) -> None:
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


def test_client_1_reads_a_stream_that_demands_signatures_with_and_without_its_default_query(
    node_address: str, tmp_path: Path
) -> None:
    result = run_scenario("client1", "signed", node_address, tmp_path)

    assert result == {
        "query": "?controlLayerVersion=0&messageLayerVersion=29",
        "live": [[1, 2, 3]] * 3,
        "signed": True,
    }


def test_client_1_gets_every_message_of_one_millisecond_live_and_again(node_address: str, tmp_path: Path) -> None:
    result = run_scenario("client1", "sameTime", node_address, tmp_path)

    assert result == {"live": [0, 1, 2, 3, 4, 5], "again": [0, 1, 2, 3, 4, 5]}


def test_client_1_works_by_the_legacy_api(node_address: str, tmp_path: Path) -> None:
    result = run_scenario("client1", "plain", node_address, tmp_path)

    assert result == {
        "live": [1, 2, 3, 4, 5],
        "all": [1, 2, 3, 4, 5],
        "last": [3, 4, 5],
        "from": [2, 3, 4, 5],
        "range": [2, 3, 4],
    }
