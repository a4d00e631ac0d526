from pathlib import Path

import pytest

from agent.errors import ConfigError
from agent.keys import DeviceKeys, Secret
from agent.keys.group_keys import GroupKeyStore, KeptGroupKey

KEYS = DeviceKeys.generate(lambda count: b"\x11" * count)
OTHER_KEYS = DeviceKeys.generate(lambda count: b"\x22" * count)
STREAM = "0xabc/boiler"


def group_key(number: int) -> KeptGroupKey:
    return KeptGroupKey(
        key_id=f"key-{number}", created_at_ms=1_700_000_000_000 + number, secret=Secret(bytes([number]) * 32)
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "group-keys"


def only_file(folder: Path) -> Path:
    (file,) = folder.iterdir()
    return file


def test_rotation_keeps_every_key_and_the_last_is_current(folder: Path) -> None:
    store = GroupKeyStore(folder, KEYS)
    for number in range(3):
        store.add(STREAM, group_key(number))
    for reopened in (store, GroupKeyStore(folder, KEYS)):
        assert reopened.current(STREAM) == group_key(2)
        assert reopened.by_id(STREAM, "key-0") == group_key(0)
        assert reopened.by_id(STREAM, "key-9") is None
        assert reopened.history(STREAM) == tuple(group_key(number) for number in range(3))


def test_all_keys_of_all_streams_are_found(folder: Path) -> None:
    store = GroupKeyStore(folder, KEYS)
    for number, stream in enumerate(("b", "a", "b")):
        store.add(stream, group_key(number))
    assert GroupKeyStore(folder, KEYS).all() == {"a": (group_key(1),), "b": (group_key(0), group_key(2))}
    (first, second) = sorted(folder.iterdir())
    first.write_bytes(second.read_bytes())
    with pytest.raises(ConfigError, match="another stream"):
        GroupKeyStore(folder, KEYS).all()


def test_streams_do_not_share_keys(folder: Path) -> None:
    store = GroupKeyStore(folder, KEYS)
    store.add(STREAM, group_key(1))
    assert store.current("another") is None
    assert store.history("another") == ()


def test_the_same_key_twice_is_kept_once_and_an_id_cannot_change_its_key(folder: Path) -> None:
    store = GroupKeyStore(folder, KEYS)
    store.add(STREAM, group_key(1))
    store.add(STREAM, group_key(1))
    assert store.history(STREAM) == (group_key(1),)
    other = KeptGroupKey(key_id="key-1", created_at_ms=0, secret=Secret(b"\x99" * 32))
    with pytest.raises(ValueError, match="is already used by another key"):
        store.add(STREAM, other)


def test_what_is_on_the_disk_is_private_and_locked(folder: Path) -> None:
    GroupKeyStore(folder, KEYS).add(STREAM, group_key(7))
    file = only_file(folder)
    assert file.stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert bytes([7]) * 32 not in file.read_bytes()
    assert b"boiler" not in file.read_bytes()
    assert "boiler" not in file.name


def test_a_damaged_or_foreign_file_is_an_error_and_never_an_empty_history(folder: Path) -> None:
    GroupKeyStore(folder, KEYS).add(STREAM, group_key(1))
    file = only_file(folder)
    good = file.read_bytes()
    with pytest.raises(ConfigError, match="from another device"):
        GroupKeyStore(folder, OTHER_KEYS).current(STREAM)
    for bad in (good[:-1], good[:20], b"", b"rubbish", good[:40] + b"!" + good[41:]):
        file.write_bytes(bad)
        with pytest.raises(ConfigError, match="restore it"):
            GroupKeyStore(folder, KEYS).current(STREAM)


def test_the_file_of_one_stream_does_not_pass_for_anothers(folder: Path) -> None:
    store = GroupKeyStore(folder, KEYS)
    store.add(STREAM, group_key(1))
    first = only_file(folder)
    store.add("another", group_key(2))
    (second,) = set(folder.iterdir()) - {first}
    second.write_bytes(first.read_bytes())
    with pytest.raises(ConfigError, match="restore it"):
        GroupKeyStore(folder, KEYS).current("another")


def test_a_full_history_is_refused_and_not_cut(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.keys.group_keys.MAX_KEYS_PER_STREAM", 2)
    store = GroupKeyStore(folder, KEYS)
    store.add(STREAM, group_key(1))
    store.add(STREAM, group_key(2))
    with pytest.raises(ValueError, match="no key can be added"):
        store.add(STREAM, group_key(3))
    assert len(store.history(STREAM)) == 2


def test_a_group_key_shows_everything_but_the_key() -> None:
    assert repr(group_key(65)) == "KeptGroupKey(key_id='key-65', created_at_ms=1700000000065, secret=Secret(32 bytes))"


@pytest.mark.parametrize(
    ("key_id", "created_at_ms", "size"), [("", 0, 32), ("x" * 257, 0, 32), ("x", -1, 32), ("x", 0, 16)]
)
def test_a_group_key_that_makes_no_sense_cannot_exist(key_id: str, created_at_ms: int, size: int) -> None:
    with pytest.raises(ValueError, match=r"key id|created_at_ms|group key"):
        KeptGroupKey(key_id=key_id, created_at_ms=created_at_ms, secret=Secret(bytes(size)))
