"""What install.sh does around the packages, in an image whose programs are stand-ins.

That the packages themselves install and run is shown under a real systemd, in test_service_under_systemd.py.
"""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.systemd_machine import AS_ROOT

INSTALLER = Path(__file__).parents[2] / "systemd" / "install.sh"
CHROOT = """#!/bin/sh
# An image without programs: makes an environment in no time, whose pip installs nothing, or fails where `bad` is.
root=$1
shift
case "$*" in
    *"-m venv "*)
        mkdir -p "$root$4/bin"
        printf '#!/bin/sh\\n[ ! -e "%s/bad" ]\\n' "$(dirname "$0")" > "$root$4/bin/pip"
        printf '#!/bin/sh\\necho headgate 1.2.3\\n' > "$root$4/bin/headgate"
        chmod +x "$root$4/bin/pip" "$root$4/bin/headgate"
        ;;
    /opt/*)
        program=$root$1
        shift
        exec "$program" "$@"
        ;;
esac
"""

pytestmark = pytest.mark.needs("systemd-sysusers", "systemd")


@dataclass(frozen=True)
class Image:
    """A root to install below."""

    tools: Path
    root: Path

    def install(self, *arguments: str, expect: int = 0) -> str:
        tools = f"PATH={self.tools}:{os.environ['PATH']}"
        command = ["env", tools, str(INSTALLER), "--root", str(self.root), *arguments]
        done = subprocess.run([*AS_ROOT, *command], capture_output=True, text=True, check=False)
        assert done.returncode == expect, done.stdout + done.stderr
        return done.stdout + done.stderr

    def files(self, *, but: str = "nothing") -> set[str]:
        found = subprocess.run(
            [*AS_ROOT, "find", self.root, "-not", "-type", "d", "-printf", "/%P\\n"],
            capture_output=True,
            text=True,
            check=True,
        )
        return {name for name in found.stdout.splitlines() if not name.startswith(but)}

    @property
    def versions(self) -> list[str]:
        return sorted(each.name for each in (self.root / "opt/headgate/versions").iterdir())

    @property
    def current(self) -> str:
        return (self.root / "opt/headgate/current").readlink().name


@pytest.fixture
def image(tmp_path: Path) -> Image:
    (tmp_path / "tools").mkdir()
    for name, text in {"chroot": CHROOT, "mount": "#!/bin/sh\n"}.items():
        (tmp_path / "tools" / name).write_text(text)
        (tmp_path / "tools" / name).chmod(0o755)
    (tmp_path / "root" / "etc").mkdir(parents=True)
    return Image(tmp_path / "tools", tmp_path / "root")


def test_an_agent_gets_its_unit_user_folders_and_rules(image: Image) -> None:
    assert "headgate 1.2.3 is installed as agent" in image.install()
    assert image.files(but="/opt/headgate/versions") >= {
        "/opt/headgate/current",
        "/usr/local/bin/headgate",
        "/etc/systemd/system/headgate.service",
        "/etc/systemd/system/headgate-firstboot.service",
        "/etc/sysusers.d/headgate.conf",
        "/etc/tmpfiles.d/headgate.conf",
        "/etc/udev/rules.d/70-headgate.rules",
        "/etc/passwd",
    }
    assert (image.root / "opt/headgate/current/bin/headgate").exists()


@pytest.mark.parametrize("role", ["node", "collector"])
def test_another_role_gets_its_own_unit_and_not_the_agents(image: Image, role: str) -> None:
    image.install("--role", role)
    files = image.files()
    assert f"/etc/systemd/system/headgate-{role}.service" in files
    assert "/etc/systemd/system/headgate.service" not in files
    assert "/etc/udev/rules.d/70-headgate.rules" not in files


def test_installing_again_switches_and_keeps_the_version_before_and_the_configuration(image: Image) -> None:
    image.install("--role", "node")
    settings = image.root / "etc/headgate/node.toml"
    subprocess.run([*AS_ROOT, "sh", "-c", f"echo '# mine' > {settings}"], check=True)
    first = image.current
    image.install("--role", "node")
    second = image.current
    image.install("--role", "node")
    assert image.versions == sorted([second, image.current])
    assert first not in image.versions
    assert settings.read_text() == "# mine\n"


def test_packages_that_do_not_install_change_nothing(image: Image) -> None:
    image.install()
    before, files = image.current, image.files()
    (image.tools / "bad").touch()
    assert "nothing was changed" in image.install(expect=1)
    assert (image.current, image.files()) == (before, files)


def test_removing_one_role_leaves_the_other_and_removing_the_last_leaves_data_alone(image: Image) -> None:
    image.install()
    image.install("--role", "collector")
    image.install("--uninstall")
    assert "/etc/systemd/system/headgate.service" not in image.files()
    assert (image.root / "opt/headgate/current/bin/headgate").exists()
    image.install("--uninstall", "--role", "collector")
    assert not (image.root / "opt/headgate").exists()
    ours = {name for name in image.files() if "headgate" in name}
    assert ours == {"/etc/sysusers.d/headgate.conf", "/etc/sysusers.d/headgate-collector.conf"}, (
        "the users own the data"
    )
    assert (image.root / "var/lib/headgate").exists()


def test_purging_removes_data_and_settings_too(image: Image) -> None:
    image.install()
    image.install("--uninstall", "--purge")
    assert not (image.root / "var/lib/headgate").exists()
    assert not (image.root / "etc/headgate").exists()


def test_removing_what_is_not_there_is_no_mistake(image: Image) -> None:
    image.install("--uninstall")
    image.install("--uninstall", "--purge")


def test_an_image_gets_no_identity_and_one_that_has_one_is_refused(image: Image) -> None:
    image.install("--start")
    assert not any("keys" in name for name in image.files(but="/opt"))
    assert "/etc/systemd/system/multi-user.target.wants/headgate.service" in image.files()
    subprocess.run([*AS_ROOT, "touch", image.root / "var/lib/headgate/keys/device.keys"], check=True)
    before = image.files()
    assert "all copies would be the same device" in image.install(expect=1)
    assert image.files() == before


def test_an_image_whose_programs_do_not_run_here_is_refused_and_stays_as_it_was(image: Image) -> None:
    (image.tools / "chroot").write_text("#!/bin/sh\nexit 126\n")
    before = image.files()
    assert "another architecture" in image.install(expect=1)
    assert image.files() == before


def test_a_machine_id_that_all_copies_would_share_is_mentioned(image: Image) -> None:
    assert "machine-id" not in image.install()
    subprocess.run([*AS_ROOT, "sh", "-c", f"echo {'ab' * 16} > {image.root}/etc/machine-id"], check=True)
    assert "copies of the image share it" in image.install()
