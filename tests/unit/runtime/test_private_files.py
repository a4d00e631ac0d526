"""The one rule for files that hold a secret."""

import os
import stat
from pathlib import Path

import pytest

from runtime.errors import ConfigError
from runtime.private_files import Reader, check_private_file, privacy_problem, read_private_file, read_secret_text

SERVICE = Reader(uid=990, groups=lambda: frozenset({991}))


def status_of(mode: int, uid: int, gid: int, kind: int = stat.S_IFREG) -> os.stat_result:
    return os.stat_result((kind | mode, 0, 0, 1, uid, gid, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("mode", "uid", "gid"),
    [(0o600, 990, 991), (0o400, 990, 0), (0o600, 0, 0), (0o640, 0, 991), (0o440, 0, 991)],
)
def test_owner_root_and_the_own_group_may_read(mode: int, uid: int, gid: int) -> None:
    assert privacy_problem(status_of(mode, uid, gid), SERVICE) == ""


@pytest.mark.parametrize(
    ("mode", "uid", "gid", "problem"),
    [
        (0o644, 990, 991, "others can read or change it (mode 0644)"),
        (0o604, 0, 991, "others can read"),
        (0o660, 0, 991, "others can read or change it (mode 0660)"),
        (0o602, 0, 0, "others can read or change"),
        (0o640, 0, 100, "others can read or change it (mode 0640)"),
        (0o640, 990, 991, "others can read or change it (mode 0640)"),
        (0o600, 1000, 991, "belongs to user 1000, not to 990 or root"),
    ],
)
def test_anyone_else_may_not(mode: int, uid: int, gid: int, problem: str) -> None:
    assert problem in privacy_problem(status_of(mode, uid, gid), SERVICE)


def test_root_may_read_what_belongs_to_any_user_but_not_what_others_can_read() -> None:
    root = Reader(uid=0, groups=lambda: frozenset({991}))
    assert privacy_problem(status_of(0o600, 1000, 1000), root) == ""
    assert privacy_problem(status_of(0o640, 0, 991), root) == ""
    assert "others can read" in privacy_problem(status_of(0o644, 0, 0), root)


def test_only_a_plain_file_holds_a_secret(tmp_path: Path) -> None:
    assert privacy_problem(status_of(0o600, 990, 991, stat.S_IFIFO), SERVICE) == "not a plain file"
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(ConfigError, match="not a plain file"):
        read_private_file(tmp_path / "pipe", max_bytes=10)


def test_a_secret_is_one_line_of_text(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.touch(0o600)
    for content, secret in (
        (b"open sesame\n", "open sesame"),
        (b" spaces stay \r\n", " spaces stay "),
        (b"\xc3\xa9", "é"),
    ):
        file.write_bytes(content)
        assert read_secret_text(file) == secret
    for content in (b"", b"\n", b"\xff", b"x" * 5000):
        file.write_bytes(content)
        with pytest.raises(ConfigError, match="password: "):
            read_secret_text(file)


def test_a_file_that_others_can_read_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.write_text("secret")
    file.chmod(0o644)
    for read in (check_private_file, read_secret_text):
        with pytest.raises(ConfigError, match=r"key\.pem: others can read or change it \(mode 0644\); chmod 600 it"):
            read(file)
    file.chmod(0o600)
    check_private_file(file)
