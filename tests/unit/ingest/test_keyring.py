import json
from pathlib import Path

import pytest

from ingest.errors import IngestError
from ingest.handed_over import HandedOver
from ingest.keyring import Keyring, read_group_keys
from ingest.store import Store
from ingest.summary import ArchiveSummary, Locked
from protocol.streamr.group_keys.group_key import GroupKey
from runtime.errors import ConfigError

KEY, OTHER = GroupKey("k1", bytes(32)), GroupKey("k1", bytes([1]) * 32)


def test_keys_are_read_by_stream_and_id(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.touch(mode=0o600)
    path.write_text(json.dumps({"stream": {"k1": "00" * 32}}))
    assert Keyring(read_group_keys(path)).find("stream", "k1") == KEY
    assert Keyring(read_group_keys(path)).find("stream", "k2") is None


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"stream": {"k1": "00" * 32}}))
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="others can read"):
        read_group_keys(path)


@pytest.mark.parametrize("text", ["[]", "{", '{"stream": 1}', '{"s": {"k1": "secret"}}', '{"s": {"k1": 7}}'])
def test_a_file_that_is_none_is_refused_without_telling_what_is_in_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys.json"
    path.touch(mode=0o600)
    path.write_text(text)
    with pytest.raises(IngestError) as refused:
        read_group_keys(path)
    assert "secret" not in str(refused.value)


def test_a_key_is_learned_but_never_replaced() -> None:
    ring = Keyring({"stream": {"k1": KEY}})
    ring.learn("stream", OTHER)
    ring.learn("stream", GroupKey("k2", bytes(32)))
    assert ring.find("stream", "k1") == KEY
    assert ring.find("stream", "k2") is not None


def test_a_ring_does_not_tell_its_keys() -> None:
    assert repr(Keyring({"stream": {"k1": OTHER}})) == "Keyring(1 keys of 1 streams)"


def test_a_key_without_a_name_serves_its_own_archive_only() -> None:
    learned: dict[tuple[str, str], GroupKey] = {}
    ring = Keyring({}, learned)
    ring.learn("stream", GroupKey("", bytes(32)))
    assert ring.find("stream", None) is not None
    assert learned == {}
    assert Keyring({}, learned).find("stream", None) is None


def test_a_keyring_lists_received_and_missing_keys() -> None:
    learned: dict[tuple[str, str], GroupKey] = {}
    ring = Keyring({}, learned)
    ring.learn("stream", KEY)
    ring.miss("other", "k9", 20)
    ring.miss("other", "k9", 10)
    assert ring.handed_over == [("stream", KEY)]
    assert ring.locked() == Locked((("other", "k9"),), 10, 20)
    assert Keyring({}, learned).find("stream", "k1") == KEY
    assert Keyring({}, learned).locked() is None


def test_keys_that_were_delivered_are_kept_for_their_device_alone(tmp_path: Path) -> None:
    summary = ArchiveSummary(archive="a", path="p", landed_at_ms=0, size_bytes=0, device="0xd1")
    summary.handed_over = [("stream", "k1", "00" * 32)]
    with Store(tmp_path) as store:
        HandedOver(store).add([summary])
        kept = HandedOver(store)
    assert kept.keys == {"0xd1": {("stream", "k1"): KEY}}
    assert kept.opens("0xd1", Locked((("stream", "k1"),), 0, 0), {})
    assert not kept.opens("0xd2", Locked((("stream", "k1"),), 0, 0), {})
    assert kept.opens("0xd2", Locked((("stream", "k1"),), 0, 0), {"stream": {"k1": KEY}})
    secrets = tmp_path / "_headgate" / "group-keys.json"
    assert secrets.stat().st_mode & 0o077 == 0
    assert "00" * 32 not in repr(kept) + repr(summary)
