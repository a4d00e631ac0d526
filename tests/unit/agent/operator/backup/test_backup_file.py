from dataclasses import replace
from typing import Any

import pytest

from agent.errors import ConfigError
from agent.keys.key_file import MIN_COST, PassphraseCost
from agent.keys.secret import Secret
from agent.operator.backup.backup_file import ENVELOPE, Backup, decode_backup, decode_content, encode_backup
from protocol import strict_cbor
from protocol.errors import Corrupt, Unsupported, WireError
from tests.unit.agent.keys.test_key_file import KEYS, PLAIN

PASSPHRASE = Secret(b"open sesame")
BACKUP = Backup(
    device=KEYS.address,
    made_at_ms=1_700_000_000_000,
    headgate="0.1.0",
    data_directory="/var/lib/headgate",
    configuration=b'[device]\nname = "bench"\n',
    key_file=Secret(PLAIN),
    key_path="data/keys/device.keys",
    group_keys={"ab" * 16 + ".group-keys": b"locked"},
    named_files={"page.token": Secret(b"0123456789abcdef"), "tls/ca.pem": Secret(b"certificate")},
    ceiling_ms=1_700_000_060_000,
)


def counted(count: int) -> bytes:
    return bytes(range(count))


def asked() -> Secret:
    return PASSPHRASE


ENCODED = encode_backup(BACKUP, PASSPHRASE, counted, MIN_COST)


def test_what_was_written_is_read_back() -> None:
    assert decode_backup(ENCODED, asked) == BACKUP
    without = replace(BACKUP, ceiling_ms=None, group_keys={}, named_files={})
    assert decode_backup(encode_backup(without, PASSPHRASE, counted, MIN_COST), asked) == without


def test_nothing_of_it_can_be_read_without_the_passphrase_and_no_repr_shows_a_secret() -> None:
    for part in (b"bench", b"page.token", b"0123456789abcdef", b"/var/lib", PLAIN[60:80]):
        assert part not in ENCODED
    assert "0123456789abcdef" not in repr(BACKUP)
    with pytest.raises(ConfigError, match="wrong passphrase"):
        decode_backup(ENCODED, lambda: Secret(b"open barley"))


def test_the_passphrase_is_not_asked_for_where_it_could_not_help() -> None:
    def refuse() -> Secret:
        raise AssertionError

    for length in range(len(ENCODED)):
        with pytest.raises(WireError):
            decode_backup(ENCODED[:length], refuse)
    for position in range(len(ENCODED)):
        damaged = bytearray(ENCODED)
        damaged[position] ^= 1
        with pytest.raises(WireError):
            decode_backup(bytes(damaged), refuse)
    with pytest.raises(Corrupt, match="not a Headgate backup"):
        decode_backup(b"PK\3\4 something else", refuse)
    with pytest.raises(Unsupported, match="this program supports 1"):
        decode_backup(ENCODED[:6] + b"\0\2" + ENCODED[8:], refuse)


@pytest.mark.parametrize("cost", [PassphraseCost(0, 8192), PassphraseCost(10**9, 8192), PassphraseCost(3, 1 << 40)])
def test_a_file_cannot_ask_for_more_than_its_share_of_memory_and_time(cost: PassphraseCost) -> None:
    outer = strict_cbor.encode({"salt": bytes(16), "opslimit": cost[0], "memlimit": cost[1], "box": bytes(100)})
    with pytest.raises(Corrupt, match="out of bounds"):
        decode_backup(ENVELOPE.wrap(outer), asked)


LEAVING = ["", ".", "..", "../x", "a/../../x", "/etc/passwd", "a//b", "a/", "a\0b", "a\nb", "x/" * 9 + "x", "x" * 2000]


@pytest.mark.parametrize("path", LEAVING)
def test_a_path_that_would_leave_its_folder_is_refused_wherever_it_stands(path: str) -> None:
    hostile: list[dict[str, Any]] = [
        {"named_files": {path: Secret(b"x")}},
        {"group_keys": {path: b"x"}},
        {"key_path": f"data/{path}/device.keys"},
        {"data_directory": path if not path.startswith("/") else "/a/../b"},
    ]
    for each in hostile:
        with pytest.raises(ValueError, match=r"path|place|name|folder"):
            replace(BACKUP, **each)


def content(**changed: strict_cbor.CborValue) -> Secret:
    plain: dict[str, strict_cbor.CborValue] = {
        "device": BACKUP.device,
        "made_at_ms": 1,
        "headgate": "0.1.0",
        "data_directory": "/srv",
        "configuration": b"",
        "key_file": PLAIN,
        "key_path": "data/keys/device.keys",
        "group_keys": {},
        "named_files": {},
        "ceiling_ms": None,
    }
    return Secret(strict_cbor.encode({**plain, **changed}))


def test_a_hostile_content_is_corrupt_though_its_passphrase_is_right() -> None:
    assert decode_content(content()).data_directory == "/srv"
    hostile: list[dict[str, strict_cbor.CborValue]] = [
        {"named_files": {"../../etc/passwd": b""}},
        {"group_keys": {"device.keys": b""}},
        {"device": bytes(20)},
        {"key_file": b""},
        {"key_path": "etc/x.keys"},
        {"key_path": "data/passwd"},
        {"made_at_ms": -1},
        {"ceiling_ms": -5},
        {"named_files": []},
        {"more": 1},
    ]
    for changed in hostile:
        with pytest.raises(WireError):
            decode_content(content(**changed))
