import io
from typing import get_args

import pytest

from agent.operator.message_forms import FORMS, Form, read_lines, read_messages, write_message
from protocol.errors import Corrupt, WireError
from tests.support.pack_samples import binary_content, json_content, linked_readings

READINGS = linked_readings(3)


def test_every_form_is_offered() -> None:
    assert get_args(Form) == FORMS


@pytest.mark.parametrize("form", FORMS)
def test_what_is_written_in_a_form_is_read_from_it(form: Form) -> None:
    (read,) = read_messages(io.BytesIO(write_message(READINGS[0], form)), form)
    assert read.to_bytes() == READINGS[0].to_bytes()


@pytest.mark.parametrize("form", ["binary", "hex", "base64"])
def test_binary_holds_any_number_of_messages(form: Form) -> None:
    data = b"".join(each.to_bytes() for each in READINGS)
    text = {"binary": data, "hex": data.hex().encode(), "base64": binary_content(READINGS)[15:-2].encode()}[form]
    assert list(read_messages(io.BytesIO(text), form)) == READINGS


@pytest.mark.parametrize("content", [binary_content(READINGS), json_content(READINGS), binary_content(READINGS[:1])])
def test_json_may_be_the_content_of_a_stream_message(content: str) -> None:
    read = list(read_messages(io.BytesIO(f" {content}\n".encode()), None))
    assert [each.id for each in read] == [each.id for each in READINGS][: len(read)]


@pytest.mark.parametrize("text", [b'{"ioMessages":"', b'{"ioMessages":"\xff"}', b'{"ioMessages":[]}', b"{", b"zz"])
def test_other_input_is_refused(text: bytes) -> None:
    with pytest.raises(WireError):
        list(read_messages(io.BytesIO(text), None))


def test_lines_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.operator.message_forms.MAX_TEXT_BYTES", 10)
    assert list(read_lines(io.BytesIO(b"one\n\n two \nthree"))) == [b"one", b"two", b"three"]
    with pytest.raises(Corrupt, match="more than 10 bytes in one line"):
        list(read_lines(io.BytesIO(b"x" * 10)))
