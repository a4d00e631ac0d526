import json
from pathlib import Path

import pytest

from ingest.errors import IngestError
from ingest.keyring import Keyring, read_group_keys
from protocol.streamr.group_key import GroupKey

KEY, OTHER = GroupKey("k1", bytes(32)), GroupKey("k1", bytes([1]) * 32)


def test_keys_are_read_by_stream_and_id(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"stream": {"k1": "00" * 32}}))
    assert Keyring(read_group_keys(path)).find("stream", "k1") == KEY
    assert Keyring(read_group_keys(path)).find("stream", "k2") is None


@pytest.mark.parametrize("text", ["[]", "{", '{"stream": 1}', '{"s": {"k1": "secret"}}', '{"s": {"k1": 7}}'])
def test_a_file_that_is_none_is_refused_without_telling_what_is_in_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys.json"
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
