import base64
import io
import json
import sys
from pathlib import Path

import pytest

from agent.cli import main
from agent.errors import ExitCode
from protocol.iomessage import EMPTY_CHAIN, ChainHead, IoMessage, hash_link
from protocol.streamr.group_keys.encryption import encrypt_message
from protocol.streamr.group_keys.group_key import GroupKey
from protocol.streamr.stream_message.signing import sign_message
from tests.support.iomessage_samples import EVERY_FIELD, message
from tests.support.pack_samples import (
    DEVICE,
    binary_content,
    json_content,
    linked_readings,
    signed_message,
    unsigned_message,
)

FULL = message(**EVERY_FIELD)
FORMS = {
    "binary": FULL.to_bytes(),
    "json": FULL.to_json().encode(),
    "xml": FULL.to_xml().encode(),
    "hex": FULL.to_bytes().hex().encode(),
    "base64": b"",
}


class Terminal:
    """Runs commands with bytes on stdin, and tells what came out."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[bytes]) -> None:
        self._monkeypatch = monkeypatch
        self._capture = capture

    def run(self, *arguments: str, stdin: bytes = b"") -> tuple[int, bytes, str]:
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        exit_code = main(["message", *arguments])
        out, err = self._capture.readouterr()
        return exit_code, out, err.decode()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Terminal:
    return Terminal(monkeypatch, capfdbinary)


@pytest.mark.parametrize("target", FORMS)
@pytest.mark.parametrize("source", FORMS)
def test_any_form_converts_to_any_other(source: str, target: str, terminal: Terminal) -> None:
    _, given, _ = terminal.run("convert", "--to", source, stdin=FULL.to_bytes())
    _, converted, _ = terminal.run("convert", "--from", source, "--to", target, stdin=given)
    exit_code, back, err = terminal.run("convert", "--from", target, "--to", "binary", stdin=converted)
    assert (exit_code, back, err) == (ExitCode.OK, FULL.to_bytes(), "")


@pytest.mark.parametrize("form", ["binary", "json", "xml"])
def test_the_form_is_recognised_by_the_first_byte(form: str, terminal: Terminal) -> None:
    exit_code, out, _ = terminal.run("decode", "--json", stdin=(b"" if form == "binary" else b" \n") + FORMS[form])
    assert exit_code == ExitCode.OK
    assert json.loads(out)["tag"] == FULL.tag


def test_several_binary_messages_in_a_row_are_all_decoded(terminal: Terminal) -> None:
    _, out, _ = terminal.run("decode", "--json", stdin=FULL.to_bytes() * 3)
    assert len(out.splitlines()) == 3


def test_decode_shows_fields_times_and_contents_for_people(terminal: Terminal) -> None:
    shown = message(tag="a\x1bb", content_data=bytes(range(100)), context_data=b"plain text", priority=0)
    exit_code, out, _ = terminal.run("decode", stdin=shown.to_bytes())
    text = out.decode()
    assert exit_code == ExitCode.OK
    assert "timestamp         1700000000123  2023-11-14T22:13:20.123+00:00" in text
    assert "tag               'a\\x1bb'" in text
    assert "priority          0" in text
    assert 'context_data      "plain text"' in text
    assert "content_data      00 01 02" in text
    assert "… (100 bytes)" in text
    assert "auth_id" not in text


def test_decode_tells_absent_from_zero_and_names_what_is_missing_and_odd(terminal: Terminal) -> None:
    data = b"\x00\x04" + bytes(7) + b"\x08" + bytes(23) + bytes.fromhex("4278bcfe5687b000")
    _, out, _ = terminal.run("decode", "--json", stdin=data)
    shown = json.loads(out)
    assert shown["timestamp"] == 1_700_000_000_123
    assert shown["quirks"] == ["double_integer"]
    assert shown["missing"] == ["id", "publisher", "info_type", "info_format"]
    assert shown["priority"] is None
    _, out, _ = terminal.run("decode", stdin=data)
    assert b"missing           id, publisher, info_type, info_format" in out


@pytest.mark.parametrize(
    ("stdin", "form", "problem"),
    [
        (FULL.to_bytes()[:-1], "binary", f"at byte {len(FULL.to_bytes()) - 1}"),
        (
            b"\x00\x05" + bytes(31),
            "binary",
            "ioMessage version 5 is not known; this reader knows version 4 (at byte 0)",
        ),
        (b"zz", "hex", "not hexadecimal"),
        (b"===", "base64", "not base64"),
        (b'{"id":', "json", "not JSON"),
        (b"<a/>", "xml", "the root element is <a>, not <iomessage>"),
        (b"hello", None, "format not recognised (binary, JSON or XML); give it with --from (at byte 0)"),
        (b"", None, "the input is empty"),
    ],
)
def test_bad_data_ends_with_65_the_reason_and_the_place(
    stdin: bytes, form: str | None, problem: str, terminal: Terminal
) -> None:
    exit_code, out, err = terminal.run("decode", *(["--from", form] if form else []), stdin=stdin)
    assert exit_code == ExitCode.BAD_DATA
    assert out == b""
    assert problem in err
    assert "Traceback" not in err


def test_endless_text_is_refused_and_not_gathered(terminal: Terminal) -> None:
    exit_code, _, err = terminal.run("decode", stdin=b"{" + b" " * (33 * 1024 * 1024))
    assert exit_code == ExitCode.BAD_DATA
    assert "not a single message" in err


def test_encode_fills_in_id_and_time_and_refuses_what_does_not_fit(terminal: Terminal) -> None:
    fields = ["--publisher", "boiler", "--info-type", "temperature", "--info-format", "Cel/text", "--content", "21.5"]
    exit_code, out, err = terminal.run("encode", *fields, "--priority", "0", "--to", "binary")
    built = IoMessage.from_bytes(out)
    assert (exit_code, err, built.priority, built.content_data) == (ExitCode.OK, "", 0, b"21.5")
    assert 43 <= len(built.id or "") <= 44
    exit_code, _, err = terminal.run("encode", *fields, "--tag", "x" * 70_000)
    assert exit_code == ExitCode.BAD_DATA
    assert "tag is 70000 bytes long in UTF-8; the limit is 65535" in err


def test_content_can_come_from_a_file_and_output_go_to_one(terminal: Terminal, tmp_path: Path) -> None:
    picture, target = tmp_path / "picture.jpg", tmp_path / "message.bin"
    picture.write_bytes(b"\xff\xd8\xff")
    fields = ["--publisher", "camera", "--info-type", "image/jpeg", "--info-format", "file/.jpg"]
    exit_code, out, _ = terminal.run(
        "encode", *fields, "--content-file", str(picture), "--to", "binary", "-o", str(target)
    )
    assert (exit_code, out) == (ExitCode.OK, b"")
    assert IoMessage.from_bytes(target.read_bytes()).content_data == b"\xff\xd8\xff"
    assert terminal.run("encode", *fields, "--content-file", str(tmp_path / "none"))[0] == ExitCode.NO_INPUT


def test_values_that_some_decoders_misread_get_a_warning(terminal: Terminal) -> None:
    exit_code, _, err = terminal.run("convert", "--to", "hex", stdin=message(priority=200).to_bytes())
    assert exit_code == ExitCode.OK
    assert "values that some decoders misread because they are too large: priority" in err


def test_the_agent_profile_is_written_on_request(terminal: Terminal) -> None:
    _, out, _ = terminal.run("convert", "--to", "binary", "--profile", "agent", stdin=message(priority=0).to_bytes())
    assert out == message(priority=0).to_bytes(profile="agent")


def test_pretty_json_is_indented(terminal: Terminal) -> None:
    _, out, _ = terminal.run("convert", "--pretty", stdin=FULL.to_bytes())
    assert out.startswith(b'{\n  "id": ')


SIGNED = (
    b'[32,["0x1a642f0e3c3af545e7acbd38b07251b3990914f1/boiler",0,1700000000123,0,'
    b'"0x1a642f0e3c3af545e7acbd38b07251b3990914f1","chain-1"],[1700000000000,0],27,0,0,null,'
    b'"{\\"temperature\\":21.5}",null,2,"0x2e46e650583519fc059d9881baab50b1a54698ed73e8efe7a47c70d6d77d060b'
    b'3ff2d7f17f7ca99b46ae183507af05448072d63fcc9e4d26d45b86368f3c455e1b"]'
)
FORGED = SIGNED.replace(b"21.5", b"99.9")


def test_a_signed_stream_message_is_verified_and_shown(terminal: Terminal) -> None:
    exit_code, out, err = terminal.run("verify", stdin=SIGNED)
    assert (exit_code, err) == (ExitCode.OK, "")
    assert b"signer            0x1a642f0e3c3af545e7acbd38b07251b3990914f1" in out
    assert b"verdict           verified" in out


def test_one_forged_stream_message_among_many_lines_is_a_no(terminal: Terminal) -> None:
    exit_code, out, _ = terminal.run("verify", "--json", stdin=b"\n".join([SIGNED, b"", FORGED, SIGNED]))
    assert exit_code == ExitCode.NO
    assert [json.loads(line)["verdict"] for line in out.splitlines()] == ["verified", "foreign", "verified"]


def test_a_stream_message_that_breaks_off_is_bad_data(terminal: Terminal) -> None:
    exit_code, _, err = terminal.run("verify", stdin=SIGNED[:-1])
    assert exit_code == ExitCode.BAD_DATA
    assert "not JSON" in err


def test_decode_shows_a_stream_message_whether_or_not_it_is_verified(terminal: Terminal) -> None:
    exit_code, out, _ = terminal.run("decode", stdin=FORGED)
    assert exit_code == ExitCode.OK
    assert b"verdict           foreign" in out


def chained(count: int) -> list[IoMessage]:
    head, messages = EMPTY_CHAIN, []
    for number in range(count):
        messages.append(hash_link(message(sequence_number=number), head))
        head = ChainHead.of(messages[-1])
    return messages


def test_a_whole_chain_of_iomessages_is_verified(terminal: Terminal) -> None:
    exit_code, out, _ = terminal.run("verify", stdin=b"".join(each.to_bytes() for each in chained(3)))
    assert (exit_code, out) == (ExitCode.OK, b"3 readings, hash chain unbroken\n")


def test_a_broken_chain_is_a_no_that_says_where(terminal: Terminal) -> None:
    messages = chained(4)
    del messages[2]
    data = b"".join(each.to_bytes() for each in messages)
    exit_code, out, _ = terminal.run("verify", stdin=data)
    assert exit_code == ExitCode.NO
    assert b"is missing: 1 messages, positions 2 to 2, are missing before it" in out
    exit_code, out, _ = terminal.run("verify", "--json", stdin=data)
    assert (exit_code, json.loads(out)["kind"]) == (ExitCode.NO, "missing")


PACK = linked_readings(3)
SIGNED_PACK = signed_message(binary_content(PACK)).serialize().encode()


@pytest.mark.parametrize("target", ["binary", "json", "xml", "hex", "base64"])
def test_a_pack_converts_to_one_message_per_reading(target: str, terminal: Terminal) -> None:
    expected = [terminal.run("convert", "--to", target, stdin=each.to_bytes())[1] for each in PACK]
    for stdin in (SIGNED_PACK, binary_content(PACK).encode(), json_content(PACK).encode()):
        exit_code, out, err = terminal.run("convert", "--to", target, stdin=stdin)
        assert (exit_code, err) == (ExitCode.OK, "")
        assert out == b"".join(expected)


def test_several_stream_messages_convert_in_their_order(terminal: Terminal) -> None:
    later = linked_readings(2, ChainHead.of(PACK[-1]))
    stdin = SIGNED_PACK + b"\n" + signed_message(json_content(later), 1).serialize().encode() + b"\n"
    _, out, _ = terminal.run("convert", "--to", "binary", stdin=stdin)
    assert out == b"".join(each.to_bytes() for each in [*PACK, *later])
    assert terminal.run("verify", stdin=out)[:2] == (ExitCode.OK, b"5 readings, hash chain unbroken\n")


@pytest.mark.parametrize("form", ["hex", "base64"])
def test_binary_as_text_may_hold_several_messages(form: str, terminal: Terminal) -> None:
    data = b"".join(each.to_bytes() for each in PACK)
    text = data.hex().encode() if form == "hex" else base64.b64encode(data)
    _, out, _ = terminal.run("convert", "--from", form, "--to", "binary", stdin=text)
    assert out == data


def test_a_stream_message_without_readings_cannot_be_converted(terminal: Terminal) -> None:
    exit_code, _, err = terminal.run("convert", stdin=SIGNED_PACK + b"\n" + SIGNED)
    assert exit_code == ExitCode.BAD_DATA
    assert "StreamMessage 2: the content holds no ioMessage" in err


def test_an_encrypted_pack_is_read_with_the_exported_keys(terminal: Terminal, tmp_path: Path) -> None:
    key = GroupKey("a key", b"\x11" * 32)
    plain = unsigned_message(binary_content(PACK))
    stdin = sign_message(encrypt_message(plain, key, bytes), DEVICE).serialize().encode()
    exported = tmp_path / "group-keys.json"
    exported.write_text(json.dumps({plain.message_id.stream_id: {"a key": key.key.hex()}}))
    exported.chmod(0o600)
    assert terminal.run("convert", "--to", "binary", stdin=stdin)[0] == ExitCode.BAD_DATA
    _, out, _ = terminal.run("convert", "--to", "binary", "--group-keys", str(exported), stdin=stdin)
    assert out == b"".join(each.to_bytes() for each in PACK)
    assert b"locked: encrypted with group key a key" in terminal.run("decode", stdin=stdin)[1]
    _, out, _ = terminal.run("decode", "--json", "--group-keys", str(exported), stdin=stdin)
    assert len(json.loads(out)["readings"]) == 3


def test_verify_checks_the_hash_chain_within_a_pack(terminal: Terminal) -> None:
    exit_code, out, _ = terminal.run("verify", stdin=SIGNED_PACK)
    assert exit_code == ExitCode.OK
    assert b"readings          3, hash chain unbroken" in out
    swapped = signed_message(binary_content([PACK[0], PACK[2], PACK[1]])).serialize().encode()
    assert terminal.run("verify", stdin=swapped)[0] == ExitCode.NO
    assert terminal.run("decode", stdin=swapped)[0] == ExitCode.OK
