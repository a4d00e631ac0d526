import os
from pathlib import Path

import pytest

from ingest.collector.errors import ConfigError
from ingest.collector.keys import (
    DECRYPTION_KEY,
    PUBLIC_KEYS,
    SIGNING_KEY,
    create_keys,
    load_decryption_key,
    load_public_keys,
    load_signing_key,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    create_keys(tmp_path / "keys", os.urandom)
    return tmp_path / "keys"


def test_keys_are_private_and_belong_together(folder: Path) -> None:
    public = load_public_keys(folder)
    assert bytes(load_signing_key(folder / SIGNING_KEY).verify_key) == public.signing
    assert bytes(load_decryption_key(folder / DECRYPTION_KEY).public_key) == public.encryption
    modes = {path.name: path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())}
    assert modes == {"keys": 0o700, SIGNING_KEY: 0o600, DECRYPTION_KEY: 0o600, PUBLIC_KEYS: 0o644}


def test_keys_are_never_replaced(folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ConfigError, match="were not changed"):
        create_keys(folder, os.urandom)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_a_key_that_others_can_read_is_refused(folder: Path) -> None:
    (folder / SIGNING_KEY).chmod(0o640)
    with pytest.raises(ConfigError, match="others can read"):
        load_signing_key(folder / SIGNING_KEY)


def test_a_folder_that_others_can_enter_is_refused(folder: Path) -> None:
    folder.chmod(0o750)
    with pytest.raises(ConfigError, match="other users can enter"):
        load_signing_key(folder / SIGNING_KEY)


def test_one_key_does_not_pass_for_the_other(folder: Path) -> None:
    with pytest.raises(ConfigError, match="not a signing key"):
        load_signing_key(folder / DECRYPTION_KEY)


def test_damage_to_any_byte_is_noticed_and_no_key_is_shown(folder: Path) -> None:
    path = folder / SIGNING_KEY
    data = path.read_bytes()
    for position in range(len(data)):
        path.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        with pytest.raises(ConfigError, match="damaged") as raised:
            load_signing_key(path)
        assert data[9:41].hex() not in str(raised.value)
    path.write_bytes(data + b"\0")
    with pytest.raises(ConfigError, match="damaged"):
        load_signing_key(path)


def test_without_keys_the_error_names_the_command_that_creates_them(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="keys init"):
        load_public_keys(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"signing_key": "zz", "encryption_key": ""}', '{"signing_key": 1}'])
def test_a_file_of_public_keys_that_is_none_is_refused(folder: Path, text: str) -> None:
    (folder / PUBLIC_KEYS).write_text(text)
    with pytest.raises(ConfigError):
        load_public_keys(folder)
