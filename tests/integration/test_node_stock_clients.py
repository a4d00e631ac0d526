"""Stock JavaScript clients, as the registry has them, against a node of ours: from the newest to the oldest API."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.commands import node_arguments, running
from tests.support.stock_clients import StockClient, with_releases_of

pytestmark = [pytest.mark.slow, pytest.mark.needs("node", "nodejs"), pytest.mark.needs("npm", "npm")]

API_KEY = "a key of a client that cannot sign"


@pytest.fixture(scope="module")
def node_address(client: StockClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A node per release, because every release creates the same streams."""
    folder = tmp_path_factory.mktemp("node")
    with running(*node_arguments(folder / "data", "--config", str(configuration_with_api_key(folder)))) as node:
        yield node.wait_for(r"node listens; address=(\S+)")


def configuration_with_api_key(folder: Path) -> Path:
    key_file, configuration = folder / "key", folder / "node.toml"
    key_file.write_text(API_KEY)
    key_file.chmod(0o600)
    configuration.write_text(f'[[api_keys]]\naddress = "0x{"1" * 40}"\nkey_file = "{key_file}"\n')
    return configuration


@with_releases_of("client5")
def test_client_5_logs_in_by_challenge(client: StockClient, node_address: str, tmp_path: Path) -> None:
    result = client.run("login", node_address, tmp_path)

    assert result["hasToken"]
    assert result["me"] == result["address"]


@with_releases_of("client5")
def test_client_5_publishes_subscribes_verified_and_resends_in_all_three_ways(
    client: StockClient, node_address: str, tmp_path: Path
) -> None:
    result = client.run("plain", node_address, tmp_path)

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


@with_releases_of("client5")
def test_client_5_learns_why_it_may_not_subscribe(client: StockClient, node_address: str, tmp_path: Path) -> None:
    result = client.run("refused", node_address, tmp_path)

    assert "You are not allowed to subscribe to stream" in result["subscribing"]
    assert result["checked"] is False


@with_releases_of("client5")
def test_client_5_subscriber_gets_the_keys_from_the_publisher_through_rotation_and_rekey(
    client: StockClient, node_address: str, tmp_path: Path
) -> None:
    result = client.run("encrypted", node_address, tmp_path)

    assert result == {"live": [1, 2, 3, 4, 5, 6], "groupKeys": 3, "history": [1, 2, 3, 4, 5, 6]}


@with_releases_of("client5")
def test_client_5_fills_a_gap_by_a_resend(client: StockClient, node_address: str, tmp_path: Path) -> None:
    result = client.run("gap", node_address, tmp_path)

    assert result == {"lost": [2, 3], "live": [1, 2, 3, 4, 5]}


@with_releases_of("client3")
def test_client_3_publishes_subscribes_verified_and_resends(
    client: StockClient, node_address: str, tmp_path: Path
) -> None:
    result = client.run("plain", node_address, tmp_path)

    assert result == {
        "live": [1, 2, 3, 4, 5],
        "versions": [] if client.release.startswith("4.") else [31],
        "last": [3, 4, 5],
        "from": [2, 3, 4, 5],
        "range": [2, 3, 4],
    }


@with_releases_of("client3")
def test_client_3_reads_encrypted_messages(client: StockClient, node_address: str, tmp_path: Path) -> None:
    scenario, messages = encryption_of(client.release)
    assert client.run(scenario, node_address, tmp_path) == {"live": [*range(1, messages + 1)]}


def encryption_of(release: str) -> tuple[str, int]:
    """The scenario, and how many messages are read in it.

    Releases before 3.2 have no key exchange. The one of 4.1, and its change of keys, do not fit the release of
    streamr-client-protocol that the registry installs beside it.
    """
    if release.startswith("4."):
        return "oneSharedKey", 2
    return ("encrypted" if release == "3.2.1" else "sharedKey"), 4


@with_releases_of("client1")
def test_client_1_reads_a_stream_that_demands_signatures_with_and_without_its_default_query(
    client: StockClient, node_address: str, tmp_path: Path
) -> None:
    result = client.run("signed", node_address, tmp_path)

    assert result == {
        "query": "?controlLayerVersion=0&messageLayerVersion=29",
        "live": [[1, 2, 3]] * 3,
        "signed": True,
    }


@with_releases_of("client1")
def test_client_1_gets_every_message_of_one_millisecond_live_and_again(
    client: StockClient, node_address: str, tmp_path: Path
) -> None:
    result = client.run("sameTime", node_address, tmp_path)

    assert result == {"live": [0, 1, 2, 3, 4, 5], "again": [0, 1, 2, 3, 4, 5]}


@with_releases_of("client1")
def test_client_1_works_by_the_legacy_api(client: StockClient, node_address: str, tmp_path: Path) -> None:
    result = client.run("plain", node_address, tmp_path)

    assert result == {
        "live": [1, 2, 3, 4, 5],
        "all": [1, 2, 3, 4, 5],
        "last": [3, 4, 5],
        "from": [2, 3, 4, 5],
        "range": [2, 3, 4],
    }


@with_releases_of("client0")
def test_client_0_works_with_an_api_key(client: StockClient, node_address: str, tmp_path: Path) -> None:
    result = client.run("plain", node_address, tmp_path, API_KEY)

    assert result == {
        "live": [1, 2, 3, 4, 5],
        "all": [1, 2, 3, 4, 5],
        "last": [3, 4, 5],
        "from": [2, 3, 4, 5],
    }
