import json
import os
import stat
from pathlib import Path

import pytest

from agent.cli import main
from agent.errors import ExitCode
from protocol.firmware import Package, is_signed_by, slot_bytes
from tests.support.joined_ports import joined_ports


@pytest.fixture
def key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "release.key"
    assert main(["firmware", "keygen", str(path)]) == ExitCode.OK
    capsys.readouterr()
    return path


def sign(key: Path, image: bytes = b"an image", *more: str, counter: str = "3") -> int:
    (key.parent / "image.bin").write_bytes(image)
    files = [str(key.parent / "image.bin"), "--key", str(key), "--out", str(key.parent / "new.hgfw")]
    return main(["firmware", "sign", *files, "--board", "bench-1", "--version", "1.2.0", "--counter", counter, *more])


def public(key: Path) -> Path:
    return key.with_name(key.name + ".pub")


def test_keygen_makes_a_private_file_and_a_public_one_once(key: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(public(key).stat().st_mode) == 0o644
    before = key.read_bytes()
    assert main(["firmware", "keygen", str(key)]) == ExitCode.BAD_CONFIG
    printed = capsys.readouterr()
    assert "already exists and was not changed" in printed.err
    assert key.read_bytes() == before
    assert before.decode().strip() not in printed.err + printed.out


def test_a_public_key_that_is_in_the_way_leaves_no_private_one_behind(tmp_path: Path) -> None:
    (tmp_path / "a.key.pub").write_text("another key\n")
    assert main(["firmware", "keygen", str(tmp_path / "a.key")]) == ExitCode.BAD_CONFIG
    assert not (tmp_path / "a.key").exists()
    assert (tmp_path / "a.key.pub").read_text() == "another key\n"


def test_what_is_signed_holds_the_image_and_is_trusted_by_its_key(
    key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sign(key) == ExitCode.OK
    package = Package.from_bytes((key.parent / "new.hgfw").read_bytes())
    assert package.image == b"an image"
    assert is_signed_by(bytes.fromhex(public(key).read_text()), package.manifest, package.signature)
    capsys.readouterr()
    show = ["firmware", "show", str(key.parent / "new.hgfw")]
    assert main([*show, "--trust", str(public(key))]) == ExitCode.OK
    assert capsys.readouterr().out == "1.2.0 for bench-1, counter 3, 8 bytes, signed by a trusted key\n"
    assert main([*show, "--json"]) == ExitCode.OK
    reported = json.loads(capsys.readouterr().out)
    assert (reported["version"], reported["counter"], reported["trusted"]) == ("1.2.0", 3, None)


def test_firmware_signed_by_another_key_is_recognised(key: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sign(key)
    other = key.with_name("other.key")
    main(["firmware", "keygen", str(other)])
    file = str(key.parent / "new.hgfw")
    assert main(["firmware", "show", file, "--trust", str(public(other))]) == ExitCode.NO
    assert "NOT SIGNED" in capsys.readouterr().out
    assert main(["firmware", "update", file, "--port", "/dev/none", "--trust", str(public(other))]) == ExitCode.NO
    assert "not signed by any trusted key" in capsys.readouterr().err


def test_a_slot_for_the_factory_is_written_on_request(key: Path) -> None:
    slot = key.parent / "slot.bin"
    assert sign(key, b"an image", "--slot-out", str(slot), "--sector-bytes", "512") == ExitCode.OK
    package = Package.from_bytes((key.parent / "new.hgfw").read_bytes())
    assert slot.read_bytes() == slot_bytes(package, sector_bytes=512)


@pytest.mark.parametrize(
    ("image", "counter", "more", "problem"),
    [
        (b"", "1", [], "the image is empty"),
        (b"x", "-1", [], "counter -1"),
        (b"x", "1", ["--board", "a b"], "or a space"),
        (b"x", "1", ["--sector-bytes", "4"], "512 or more"),
    ],
)
def test_what_no_manifest_can_hold_is_the_callers_mistake(
    key: Path, image: bytes, counter: str, more: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sign(key, image, *more, counter=counter) == ExitCode.BAD_CONFIG
    assert problem in capsys.readouterr().err
    assert not (key.parent / "new.hgfw").exists()


def test_a_key_that_others_can_read_or_that_is_none_signs_nothing(
    key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key.chmod(0o640)
    assert sign(key) == ExitCode.BAD_CONFIG
    assert "chmod 600" in capsys.readouterr().err
    key.chmod(0o600)
    key.write_text("5ec7e7" * 3)
    assert sign(key) == ExitCode.BAD_CONFIG
    problem = capsys.readouterr().err
    assert "64 hex digits" in problem
    assert "5ec7e7" not in problem


def test_a_damaged_file_is_distinguished_from_a_foreign_one(key: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sign(key)
    file = key.parent / "new.hgfw"
    file.write_bytes(file.read_bytes()[:-1] + b"X")
    update = ["firmware", "update", str(file), "--port", "/dev/none", "--trust", str(public(key))]
    assert main(update) == ExitCode.BAD_DATA
    assert "digests differ" in capsys.readouterr().err


def test_an_update_needs_a_key_to_trust(key: Path) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["firmware", "update", "new.hgfw", "--port", "/dev/none"])
    assert stopped.value.code == ExitCode.USAGE


def test_a_port_that_is_absent_or_held_is_reported_with_what_to_do(
    key: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    import serial

    sign(key)
    update = ["firmware", "update", str(key.parent / "new.hgfw"), "--trust", str(public(key)), "--port"]
    assert main([*update, str(tmp_path / "none")]) == ExitCode.UNAVAILABLE
    assert "is absent" in capsys.readouterr().err
    with joined_ports() as (port, _), serial.Serial(port, exclusive=True):
        assert main([*update, port]) == ExitCode.UNAVAILABLE
    assert "systemctl stop headgate" in capsys.readouterr().err


def test_ports_without_a_device_that_responds_are_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.operator.firmware_devices.RESPONSE_S", 0.2)
    with joined_ports() as (port, _):
        assert main(["firmware", "list", "--port", port]) == ExitCode.UNAVAILABLE
        assert f"{port}: no device answered" in capsys.readouterr().err
        assert main(["firmware", "list", "--port", port, "--json"]) == ExitCode.UNAVAILABLE
        assert "no device answered" in json.loads(capsys.readouterr().out)["problem"]


def test_without_a_port_all_serial_ports_are_asked_and_none_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("agent.operator.firmware_devices.serial_ports", list)
    assert main(["firmware", "list"]) == ExitCode.OK
    assert capsys.readouterr().out == ""


def test_the_umask_does_not_open_a_private_key(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        assert main(["firmware", "keygen", str(tmp_path / "key")]) == ExitCode.OK
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
