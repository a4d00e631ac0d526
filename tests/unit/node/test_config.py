"""Settings: complete checks, every problem at once."""

import tomllib
from pathlib import Path

import pytest

from node.access.policy import Audience, StreamCreation
from node.config import ApiKey, NodeConfig, load_config, parse_config
from node.errors import ConfigError
from node.streams import PUBLIC, Grant, Operation
from tests.support.node_samples import ALICE, BOB

COMPLETE = f"""
listen = "[::1]:7071"
data = "/var/lib/node"

[access]
stream_creation = "closed"
addresses = ["{ALICE.address}"]
status = "public"

[limits]
max_connections = 10
ping_interval_s = 5

[retention]
max_days = 7
max_megabytes = 100

[[streams]]
id = "boiler"
partitions = 2
require_signed_data = true
owner = "0x{ALICE.address[2:].upper()}"
publishers = ["{BOB.address}"]
subscribers = ["public"]

[[api_keys]]
address = "{BOB.address}"
key_file = "/etc/key"
"""


def read(text: str) -> NodeConfig:
    return parse_config(tomllib.loads(text), name="node.toml")


def test_no_settings_are_good_settings() -> None:
    assert read("") == NodeConfig()


def test_every_setting_arrives_where_it_belongs() -> None:
    config = read(COMPLETE)
    (stream,) = config.streams

    assert config.listen == ("::1", 7071)
    assert config.data == Path("/var/lib/node")
    assert config.access.stream_creation is StreamCreation.CLOSED
    assert config.access.addresses == {ALICE.address}
    assert config.access.status is Audience.PUBLIC
    assert (config.limits.max_connections, config.limits.ping_interval_s) == (10, 5.0)
    assert (config.retention.max_days, config.retention.max_megabytes) == (7, 100)
    assert (stream.stream.id, stream.stream.partitions, stream.owner) == ("boiler", 2, ALICE.address)
    assert config.api_keys == (ApiKey(address=BOB.address, key_file=Path("/etc/key")),)
    assert Grant("boiler", BOB.address, Operation.PUBLISH) in stream.grants()
    assert Grant("boiler", PUBLIC, Operation.SUBSCRIBE) in stream.grants()
    assert Grant("boiler", ALICE.address, Operation.SHARE) in stream.grants()
    assert Grant("boiler", PUBLIC, Operation.PUBLISH) not in stream.grants()


def test_all_problems_are_reported_at_once_with_their_paths() -> None:
    with pytest.raises(ConfigError) as error:
        read(
            """
            listn = "x"
            data = 5
            [access]
            stream_creation = "open"
            addresses = ["0x12"]
            [limits]
            max_connection = 3
            max_streams = 0
            max_resends = 1.5
            [[streams]]
            id = "a"
            partitions = 1000
            [[streams]]
            name = "no id"
            publishers = ["everyone"]
            """
        )
    assert str(error.value).splitlines() == [
        "node.toml: 10 problems",
        "  listn: unknown setting; did you mean listen?",
        "  data: 5 is not a local path",
        "  access.stream_creation: 'open' is not one of own_address, any_id, closed",
        "  access.addresses[0]: '0x12' is not an address",
        "  limits.max_connection: unknown setting; did you mean max_connections?",
        "  limits.max_resends: 1.5 is not a whole number",
        "  limits.max_streams: 0 is not positive",
        "  streams[0].partitions: 1000 is not between 1 and 100",
        "  streams[1].id: missing; expected a string",
        "  streams[1].publishers[0]: 'everyone' is not an address or 'public'",
    ]
    assert error.value.exit_code == 78


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("streams = 3", "streams: 3 is not a list of tables"),
        ("[[api_keys]]", "api_keys[0].key_file: missing; expected a local path"),
        ("api_keys = 3", "api_keys: 3 is not a list of tables"),
        ("limits = 3", "limits: 3 is not a table"),
        ('listen = "nowhere"', "listen: 'nowhere' is not HOST:PORT"),
        ("[access]\naddresses = 3", "access.addresses: 3 is not a list"),
        ('[[streams]]\nid = "a"\n[[streams]]\nid = "a"', "streams[1].id: 'a' is declared twice"),
        (f'[[streams]]\nid = "{ALICE.address}"', "streams[0].id: must be the id of a stream"),
        ("[retention]\nmax_days = inf", "retention.max_days: inf is not a whole number"),
        ("[limits]\nsend_timeout_s = inf", "limits.send_timeout_s: inf is not a number"),
    ],
)
def test_an_invalid_setting_is_reported(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        read(text)
    assert problem in str(error.value)


def test_a_file_that_is_no_toml_is_a_config_error(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    for content in (b"= 3", b"\xff\xfe", b"#" * 2_000_000):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match=r"node\.toml"):
            load_config(path)


def test_an_api_key_is_read_from_its_file_and_must_not_be_guessable(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("a key of many characters\n")
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="others can read"):
        ApiKey(address=BOB.address, key_file=path).read()
    path.chmod(0o600)
    assert ApiKey(address=BOB.address, key_file=path).read() == "a key of many characters"
    for text in ("short", "x" * 300):
        path.write_text(text)
        with pytest.raises(ConfigError, match="16 to 256 bytes") as error:
            ApiKey(address=BOB.address, key_file=path).read()
        assert text not in str(error.value)


def test_names_and_origins_are_checked() -> None:
    good = {"hosts": ["Node.lan"], "origins": ["https://App.example", "*"]}
    access = parse_config({"access": good}, name="node.toml").access
    assert (access.hosts, access.origins) == (frozenset({"node.lan"}), frozenset({"https://app.example", "*"}))

    bad = {"hosts": ["node:7070", 3], "origins": ["app.example", "https://app.example/"]}
    with pytest.raises(ConfigError) as refused:
        parse_config({"access": bad}, name="node.toml")
    assert "access.hosts[0]: 'node:7070' is not a name without a port" in str(refused.value)
    assert "4 problems" in str(refused.value)
