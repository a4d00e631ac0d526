import errno
import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from runtime.durable_files import create_file, make_directory, replace_file
from tests.effort import effort, seeds
from tests.support.crashing_folder import CrashingFolder
from tests.support.patience import PATIENCE_S


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


@pytest.mark.parametrize("seed", seeds(test=4, soak=500))
def test_a_directory_that_was_made_survives_a_power_cut_with_its_parents(tmp_path: Path, seed: int) -> None:
    with CrashingFolder(tmp_path / "data") as folder:
        make_directory(folder.path / "a" / "b", mode=0o700)
        assert (folder.path / "a" / "b").stat().st_mode & 0o777 == 0o700
        found = folder.after_power_loss(tmp_path / "found", random.Random(seed))
    assert (found / "a" / "b").is_dir()


@pytest.mark.parametrize("seed", seeds(test=4, soak=500))
def test_a_directory_of_a_killed_process_is_durable_after_the_next_make_directory(tmp_path: Path, seed: int) -> None:
    with CrashingFolder(tmp_path / "data") as folder:
        (folder.path / "a").mkdir()
        make_directory(folder.path / "a")
        found = folder.after_power_loss(tmp_path / "found", random.Random(seed))
    assert (found / "a").is_dir()


def test_a_file_where_the_directory_should_be_is_an_error(path: Path) -> None:
    path.touch()
    with pytest.raises(FileExistsError):
        make_directory(path)


@pytest.mark.parametrize("problem", [errno.EINVAL, errno.EROFS, errno.EACCES])
def test_a_directory_whose_parent_cannot_be_synced_is_used_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: int
) -> None:
    def refuse(_descriptor: int) -> None:
        raise OSError(problem, os.strerror(problem))

    monkeypatch.setattr(os, "fsync", refuse)
    make_directory(tmp_path)
    with pytest.raises(OSError, match=os.strerror(problem)):
        make_directory(tmp_path / "new")


def test_a_medium_that_fails_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output"):
        make_directory(tmp_path)


def test_two_writers_of_one_file_do_not_disturb_each_other(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_fsync, first_is_writing, second_is_done = os.fsync, threading.Event(), threading.Event()

    def fsync(descriptor: int) -> None:
        if threading.current_thread() is not threading.main_thread() and not first_is_writing.is_set():
            first_is_writing.set()
            assert second_is_done.wait(PATIENCE_S)
        real_fsync(descriptor)

    monkeypatch.setattr("os.fsync", fsync)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(replace_file, path, b"first")
        assert first_is_writing.wait(PATIENCE_S)
        replace_file(path, b"second")
        assert path.read_bytes() == b"second"
        second_is_done.set()
        first.result()
    assert path.read_bytes() == b"first", "the last to finish"
    assert os.listdir(path.parent) == ["file"]  # noqa: PTH208 - hidden ones too


def test_what_a_crash_left_under_a_temporary_name_is_removed_by_the_next_write(path: Path) -> None:
    path.with_name(".file.new").write_bytes(b"half of a")
    replace_file(path, b"whole")
    assert os.listdir(path.parent) == ["file"]  # noqa: PTH208 - hidden ones too
    path.with_name(".file.new").symlink_to(path)
    replace_file(path, b"another")
    assert path.read_bytes() == b"another"
    assert not path.is_symlink()


def test_many_writers_leave_one_whole_file_and_nothing_else(path: Path) -> None:
    contents = [number.to_bytes(2) * 5000 for number in range(effort(test=40, soak=2000))]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda content: replace_file(path, content), contents))
    assert path.read_bytes() in contents
    assert os.listdir(path.parent) == ["file"]  # noqa: PTH208 - hidden ones too
