import io
import json
from pathlib import Path

import pytest

from agent.cli import main
from agent.errors import ExitCode
from agent.keys import Secret, load_keys
from agent.keys.group_keys import GroupKeyStore, KeptGroupKey, read_group_keys_of
from agent.keys.key_file import PassphraseCost
from ingest.keyring import read_group_keys
from protocol.binding import Binding

ONE = "0x" + "0" * 63 + "1"
ADDRESS_OF_ONE = "0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf"


@pytest.fixture(autouse=True)
def _cheap_passphrases(monkeypatch: pytest.MonkeyPatch) -> None:
    cheap = PassphraseCost(opslimit=1, memlimit_bytes=8192)
    for function in ("create_key_file", "replace_key_file"):
        monkeypatch.setitem(
            getattr(__import__("agent.keys", fromlist=[function]), function).__kwdefaults__, "cost", cheap
        )


@pytest.fixture
def private(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path


def private_file(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


def shown(private: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    assert main(["keys", "show", "--json", "--keys", str(private / "device.keys")]) == ExitCode.OK
    result: dict[str, str] = json.loads(capsys.readouterr().out)
    return result


def test_init_makes_keys_once_and_never_again(private: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(private / "device.keys")
    assert main(["keys", "init", "--keys", path]) == ExitCode.OK
    assert capsys.readouterr().out.startswith("device       0x")
    first = shown(private, capsys)
    assert first["protection"] == "none"
    assert main(["keys", "init", "--keys", path]) == ExitCode.BAD_CONFIG
    assert "already exists and was not changed" in capsys.readouterr().err
    assert shown(private, capsys) == first


def test_show_without_a_file_says_so(private: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "show", "--keys", str(private / "none.keys")]) == ExitCode.NO_INPUT
    assert f"{private / 'none.keys'}: no keys" in capsys.readouterr().err


def test_show_prints_who_and_where(private: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(private / "device.keys")
    main(["keys", "init", "--keys", path])
    capsys.readouterr()
    assert main(["keys", "show", "--keys", path]) == ExitCode.OK
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        "device",
        "archive",
        "file",
        "protection",
        "machine",
    ]


def test_what_is_exported_is_public_and_proves_itself(private: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = str(private / "device.keys"), private / "public.json"
    main(["keys", "init", "--keys", path])
    assert main(["keys", "export-public", "--keys", path, "--out", str(out)]) == ExitCode.OK
    capsys.readouterr()
    assert main(["keys", "export-public", "--keys", path]) == ExitCode.OK
    exported = json.loads(capsys.readouterr().out)
    assert exported == json.loads(out.read_text())
    assert Binding(
        address=bytes.fromhex(exported["device"][2:]),
        archive_key=bytes.fromhex(exported["archive_key"]),
        signature=bytes.fromhex(exported["binding"][2:]),
    )


def test_group_keys_are_exported_as_the_ingest_takes_them(private: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(private / "device.keys")
    assert main(["keys", "init", "--keys", path]) == ExitCode.OK
    export = ["keys", "export-group-keys", "--keys", path]
    assert main(export) == ExitCode.BAD_CONFIG
    assert "no group keys; the first key of a stream is created" in capsys.readouterr().err
    store = GroupKeyStore(private / "groups", load_keys(Path(path), lambda: Secret(b"")))
    for number, stream in enumerate(("0xa/one", "0xa/two", "0xa/one")):
        key = KeptGroupKey(key_id=f"key {number}", created_at_ms=number, secret=Secret(bytes([number]) * 32))
        store.add(stream, key)
    out = private / "group-keys.json"
    assert main([*export, "--out", str(out)]) == ExitCode.OK
    assert out.stat().st_mode & 0o777 == 0o600
    assert {stream: list(keys) for stream, keys in read_group_keys(out).items()} == {
        "0xa/one": ["key 0", "key 2"],
        "0xa/two": ["key 1"],
    }
    assert read_group_keys_of("0xa/two", out) == read_group_keys(out)["0xa/two"]
    assert read_group_keys_of("another", out) == {}
    capsys.readouterr()
    assert main([*export, "--stream", "0xa/two"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out) == {"0xa/two": {"key 1": "01" * 32}}
    assert main([*export, "--stream", "0xa/three"]) == ExitCode.BAD_CONFIG


def test_import_builds_on_an_ethereum_key_from_a_file_or_stdin(
    private: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = private_file(private, "ethereum", ONE + "\n")
    assert main(["keys", "import", source, "--keys", str(private / "device.keys")]) == ExitCode.OK
    capsys.readouterr()
    assert shown(private, capsys)["device"] == ADDRESS_OF_ONE
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(ONE[2:].encode())))
    assert main(["keys", "import", "-", "--keys", str(private / "second.keys")]) == ExitCode.OK


@pytest.mark.parametrize("text", ["", "xyz", "0x" + "0" * 64, "0x" + "f" * 64, ONE + "00"])
def test_import_of_what_is_no_key_changes_nothing_and_does_not_repeat_it(
    private: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    source = private_file(private, "ethereum", text)
    assert main(["keys", "import", source, "--keys", str(private / "device.keys")]) == ExitCode.BAD_CONFIG
    captured = capsys.readouterr()
    assert not text or text not in captured.out + captured.err
    assert not (private / "device.keys").exists()


def test_a_passphrase_is_set_changed_and_removed(private: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(private / "device.keys")
    one, two = private_file(private, "one", "first\n"), private_file(private, "two", "second\n")
    assert main(["keys", "init", "--keys", path, "--passphrase-file", one]) == ExitCode.OK
    capsys.readouterr()
    before = shown(private, capsys)
    assert before["protection"] == "passphrase"
    change = ["keys", "change-passphrase", "--keys", path]
    assert main([*change, "--passphrase-file", two, "--remove"]) == ExitCode.BAD_CONFIG
    assert "wrong passphrase" in capsys.readouterr().err
    assert main([*change, "--passphrase-file", one, "--new-passphrase-file", two]) == ExitCode.OK
    assert main([*change, "--passphrase-file", two, "--remove"]) == ExitCode.OK
    capsys.readouterr()
    after = shown(private, capsys)
    assert after == {**before, "protection": "none"}


def test_a_passphrase_file_that_others_can_read_is_refused(private: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = Path(private_file(private, "one", "first\n"))
    source.chmod(0o644)
    path = str(private / "device.keys")
    assert main(["keys", "init", "--keys", path, "--passphrase-file", str(source)]) == ExitCode.BAD_CONFIG
    assert "mode 0644" in capsys.readouterr().err
    assert not Path(path).exists()
