"""Missing programs, and their installation, with an apt-get that this test writes."""

import os
from pathlib import Path

import pytest

from tests.support import programs
from tests.support.programs import Need, missing, provide

WANTED = Need("wanted-program", "wanted-package")
SHELL = Need("sh", "dash")
APT_GET = """#!/bin/sh
echo "$@" >> "$0.log"
[ "$1" = install ] || exit 0
printf '#!/bin/sh\\n' > {folder}/wanted-program
/bin/chmod +x {folder}/wanted-program
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only directory in which programs are searched."""
    (tmp_path / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(programs, "SYSTEM_DIRECTORIES", ())
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path


def write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def test_missing_programs_are_found_by_the_path(folder: Path) -> None:
    assert missing([WANTED, SHELL, WANTED]) == [WANTED]
    assert str(WANTED) == "wanted-program (package wanted-package)"


def test_a_library_is_found_by_the_pattern_of_its_path(tmp_path: Path) -> None:
    library = Need(f"{tmp_path}/lib-*/libwanted.a", "wanted-dev")
    assert missing([library]) == [library]
    (tmp_path / "lib-14").mkdir()
    (tmp_path / "lib-14" / "libwanted.a").touch()
    assert missing([library]) == []


def test_a_missing_program_is_installed_from_its_package(folder: Path) -> None:
    write_program(folder / "apt-get", APT_GET.format(folder=folder))
    assert provide([WANTED, SHELL]) == []
    calls = (folder / "apt-get.log").read_text().splitlines()
    assert calls == ["update --quiet", "install --quiet --yes --no-install-recommends wanted-package"]


def test_apt_is_not_run_when_nothing_is_missing(folder: Path) -> None:
    write_program(folder / "apt-get", APT_GET.format(folder=folder))
    assert provide([SHELL]) == []
    assert not (folder / "apt-get.log").exists()


def test_a_failure_of_apt_is_reported_and_the_program_stays_missing(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write_program(folder / "apt-get", "#!/bin/sh\necho no network >&2\nexit 100\n")
    assert provide([WANTED]) == [WANTED]
    out, err = capfd.readouterr()
    assert out == "", "standard output is for results"
    assert err.splitlines() == [
        "installing system packages: wanted-package",
        "apt-get update failed: no network",
        "apt-get install failed: no network",
    ]


def test_without_apt_or_without_sudo_nothing_is_tried(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert provide([WANTED]) == [WANTED]
    write_program(folder / "apt-get", APT_GET.format(folder=folder))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert provide([WANTED]) == [WANTED]
    assert not (folder / "apt-get.log").exists()


def test_a_user_gets_it_through_sudo_without_a_password(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_program(folder / "apt-get", APT_GET.format(folder=folder))
    write_program(folder / "sudo", '#!/bin/sh\n[ "$1" = --non-interactive ] && shift && exec "$@"\n')
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert provide([WANTED]) == []


def test_programs_in_the_directories_of_the_system_are_found_and_can_be_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "sbin").mkdir()
    write_program(folder / "sbin" / "wanted-program", "#!/bin/sh\n")
    monkeypatch.setattr(programs, "SYSTEM_DIRECTORIES", (str(folder / "sbin"),))
    assert provide([WANTED]) == []
    assert os.environ["PATH"] == f"{folder}:{folder}/sbin"
