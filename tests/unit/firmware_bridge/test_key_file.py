import os
from pathlib import Path

import pytest

from firmware_bridge import ConfigError, read_link_key

KEY = bytes(range(32))


def key_file(folder: Path, content: str = KEY.hex() + "\n", mode: int = 0o600) -> Path:
    path = folder / "greenhouse.key"
    path.write_text(content)
    path.chmod(mode)
    return path


def test_a_private_file_with_64_hex_digits_is_a_key(tmp_path: Path) -> None:
    assert read_link_key(key_file(tmp_path)) == KEY


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o660, 0o644])
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(ConfigError, match=f"others can read or change it .mode {mode:04o}.; chmod 600 it"):
        read_link_key(key_file(tmp_path, mode=mode))


@pytest.mark.parametrize("content", ["", "00", KEY.hex() + "00", "x" * 64, KEY.hex()[:-1], "\u2460" * 64])
def test_what_is_no_key_is_refused_without_showing_it(tmp_path: Path, content: str) -> None:
    with pytest.raises(ConfigError, match="64 hex digits are expected") as caught:
        read_link_key(key_file(tmp_path, content))
    assert content[:16] not in str(caught.value) or content in ("", "00")
    assert caught.value.__cause__ is None
    assert caught.value.exit_code == 78


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(ConfigError, match="not a plain file"):
        read_link_key(tmp_path / "pipe")


def test_a_folder_is_called_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        read_link_key(tmp_path)
