import os
from pathlib import Path

import pytest

from agent.atomic_files import create_file, replace_file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


def visible(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir() if not each.name.startswith(".")]


def test_a_new_file_is_whole_private_and_alone(path: Path) -> None:
    create_file(path, b"content")
    assert path.read_bytes() == b"content"
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(path.parent) == ["file"]  # noqa: PTH208 - hidden ones too, and nothing else


def test_creating_never_replaces(path: Path) -> None:
    create_file(path, b"first")
    with pytest.raises(FileExistsError):
        create_file(path, b"second")
    assert path.read_bytes() == b"first"
    assert visible(path.parent) == ["file"]


def test_replacing_replaces_whether_or_not_there_was_one(path: Path) -> None:
    for content in (b"first", b"second"):
        replace_file(path, content, mode=0o640)
        assert path.read_bytes() == content
        assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("call", ["os.fsync", "os.fchmod", "os.open"])
def test_a_failure_on_the_way_leaves_the_old_content_under_the_name(
    path: Path, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    create_file(path, b"old")
    with monkeypatch.context() as patch:
        patch.setattr(call, fail)
        with pytest.raises(OSError, match="No space left"):
            replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert visible(path.parent) == ["file"]
    replace_file(path, b"new")
    assert path.read_bytes() == b"new"


def test_every_step_is_synced_in_its_turn(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    real_fsync, real_replace = os.fsync, Path.replace

    def note_fsync(descriptor: int) -> None:
        seen.append(f"sync {Path(f'/proc/self/fd/{descriptor}').readlink().name}")
        real_fsync(descriptor)

    def note_replace(source: Path, target: Path) -> Path:
        seen.append(f"{source.name} to {target.name}")
        return real_replace(source, target)

    monkeypatch.setattr("os.fsync", note_fsync)
    monkeypatch.setattr(Path, "replace", note_replace)
    replace_file(path, b"content")
    assert seen == ["sync .file.new", ".file.new to file", f"sync {path.parent.name}"]
