import os
import pwd
import shutil
import subprocess
from pathlib import Path

import pytest

from agent.cli import main
from agent.config.configuration import Config, load_config
from agent.config.files import named_files
from agent.errors import ConfigError
from agent.operator import service_user
from agent.operator.service_user import (
    ServiceUser,
    find_service_user,
    judged_user,
    service_access_problems,
    unreadable_files,
)

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
EVERY_FILE = """
[device]
name = "bench"
data_directory = "data"
passphrase_file = "pass"
[drivers.broker]
driver = "mqtt"
host = "broker.example"
username = "me"
password_file = "driver.password"
[[drivers.broker.subscriptions]]
topic = "a"
format = "number"
quantity = "x"
[publishers.broker]
kind = "mqtt"
host = "broker.example"
username = "me"
password_file = "publisher.password"
tls = "on"
ca_file = "ca.pem"
[publishers.file]
kind = "file"
path = "out.jsonl"
[archive]
encrypt_to = "collector.pub"
[ship]
url = "https://collector.example:8440"
collector_key = "collector.key"
[page]
token_file = "page.token"
"""


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """A device whose folders anyone may enter."""
    for folder in (tmp_path, *tmp_path.parents[:3]):
        if folder.owner() == "root" and folder != Path("/tmp"):
            folder.chmod(0o755)
    path = tmp_path / "headgate.toml"
    assert main(["init", "--config", str(path), "--data", str(tmp_path / "data"), "--non-interactive"]) == 0
    path.chmod(0o644)
    return load_config(path)


@pytest.fixture
def nobody() -> ServiceUser:
    return ServiceUser.named("nobody")


def test_every_file_that_is_read_is_known_by_its_setting(tmp_path: Path) -> None:
    path = tmp_path / "headgate.toml"
    path.write_text(EVERY_FILE)
    assert set(named_files(load_config(path))) == {
        "the configuration",
        "device.key_file",
        "device.passphrase_file",
        "drivers.broker.password_file",
        "publishers.broker.password_file",
        "publishers.broker.ca_file",
        "archive.encrypt_to",
        "ship.collector_key",
        "page.token_file",
    }


@needs_root
@pytest.mark.parametrize(("mode", "is_readable"), [(0o600, False), (0o640, False), (0o644, True)])
def test_a_file_of_root_is_judged_as_the_other_user(
    tmp_path: Path, config: Config, nobody: ServiceUser, mode: int, is_readable: bool
) -> None:
    file = tmp_path / "token"
    file.touch()
    file.chmod(mode)
    assert unreadable_files(nobody, {"it": file}) == ({} if is_readable else {"it": file})


@needs_root
def test_its_group_and_the_folders_above_count(tmp_path: Path, config: Config, nobody: ServiceUser) -> None:
    file = tmp_path / "folder" / "token"
    file.parent.mkdir(mode=0o755)
    file.touch(mode=0o640)
    os.chown(file, 0, nobody.gid)
    assert unreadable_files(nobody, {"it": file}) == {}
    file.parent.chmod(0o700)
    assert unreadable_files(nobody, {"it": file}) == {"it": file.parent}
    assert unreadable_files(nobody, {"it": tmp_path / "missing"}) == {}


@needs_root
def test_each_problem_names_the_file_its_owner_and_the_fix(tmp_path: Path, config: Config) -> None:
    token = tmp_path / "page.token"
    token.write_text("a" * 32)
    token.chmod(0o600)
    config.path.write_text(config.path.read_text() + f'[page]\ntoken_file = "{token}"\n')
    nobody = ServiceUser.named("nobody")
    group = nobody.group_name
    keys, page = service_access_problems(load_config(config.path), nobody)
    assert "device.key_file" in keys
    assert f"{tmp_path / 'data' / 'keys'} is root:root 0700" in keys
    assert page == (
        f"page.token_file: {token}: the service's user nobody cannot read it ({token} is root:root 0600);"
        f" chown root:{group} {token} && chmod 640 {token}"
    )
    subprocess.run(page.split("; ")[1], shell=True, check=True)
    assert len(service_access_problems(load_config(config.path), nobody)) == 1, "the advice works"


@needs_root
def test_who_follows_the_advice_of_check_for_another_user_passes_it(
    tmp_path: Path, config: Config, capsys: pytest.CaptureFixture[str]
) -> None:
    token = tmp_path / "page.token"
    token.write_text("a" * 32)
    token.chmod(0o600)
    config.path.write_text(config.path.read_text() + f'[page]\ntoken_file = "{token}"\n')
    assert main(["check", "--config", str(config.path), "--user", "nobody"]) == 78
    problems = capsys.readouterr().err.splitlines()[1:]
    assert len(problems) == 2
    for problem in problems:
        subprocess.run(problem.split("; ")[1], shell=True, check=True)
    assert main(["check", "--config", str(config.path), "--user", "nobody"]) == 0


@needs_root
def test_check_and_doctor_fail_for_what_the_unit_s_user_cannot_read(
    config: Config, nobody: ServiceUser, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--config", str(config.path)]) == 0
    monkeypatch.setattr(service_user, "find_service_user", lambda _: nobody)
    assert main(["check", "--config", str(config.path)]) == 78
    assert "the service's user nobody cannot read it" in capsys.readouterr().err
    assert main(["doctor", "--config", str(config.path)]) == 1
    assert "configuration: " in (printed := capsys.readouterr().out)
    assert "the service's user nobody cannot read it" in printed


@needs_root
def test_a_secret_for_the_group_of_the_unit_is_private_for_check_and_doctor(
    tmp_path: Path, config: Config, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(service_user, "find_service_user", lambda _: ServiceUser.of_unit("nobody", "daemon", ()))
    monkeypatch.setattr(service_user, "HIDDEN_FOLDERS", ())
    for name in ("pass", "page.token"):
        (tmp_path / name).write_text("a" * 32)
        (tmp_path / name).chmod(0o600)
    key_file = tmp_path / "keys" / "device.keys"
    arguments = ["--keys", str(key_file), "--with-passphrase", "--passphrase-file", str(tmp_path / "pass")]
    assert main(["keys", "init", *arguments]) == 0
    config.path.write_text(
        f'[device]\nname = "bench"\nkey_file = "{key_file}"\npassphrase_file = "pass"\n'
        '[drivers.own]\ndriver = "system"\n[page]\ntoken_file = "page.token"\n'
    )
    shutil.chown(key_file.parent, "nobody", "daemon")
    shutil.chown(key_file, "nobody", "daemon")
    for name in ("pass", "page.token"):
        (tmp_path / name).chmod(0o640)
        shutil.chown(tmp_path / name, "root", "daemon")
    assert main(["check", "--config", str(config.path)]) == 0, capsys.readouterr().err
    main(["doctor", "--config", str(config.path)])
    assert f"{key_file}: device 0x" in (shown := capsys.readouterr().out), shown
    assert "others can read or change it" not in shown


def test_the_unit_s_user_is_asked_for_only_where_the_unit_runs_with_this_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = pwd.getpwuid(os.getuid()).pw_name
    systemctl = tmp_path / "systemctl"
    systemctl.write_text(
        f"#!/bin/sh\nprintf 'LoadState=loaded\\nUser={own}\\nSupplementaryGroups=\\n"
        "ExecStart={ path=/x ; argv[]=/x run --config /etc/a.toml ; ignore_errors=no }\\n'\n"
    )
    systemctl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = find_service_user(Path("/etc/a.toml"))
    assert found is not None
    assert found.name == own
    assert find_service_user(Path("/etc/b.toml")) is None
    systemctl.write_text("#!/bin/sh\nexit 1\n")
    assert find_service_user(Path("/etc/a.toml")) is None


def test_a_user_that_does_not_exist_is_named(config: Config) -> None:
    with pytest.raises(ConfigError, match="no user or group is named 'nosuchuser'"):
        judged_user(config.path, "nosuchuser")


@needs_root
def test_where_the_user_cannot_be_become_the_command_for_it_is_given(config: Config) -> None:
    stranger = ServiceUser(name="stranger", uid=-5, gid=0, groups=())
    with pytest.raises(ConfigError, match="sudo -u stranger headgate check"):
        unreadable_files(stranger, {"it": config.path})
