import copy
import pickle

import pytest

from protocol.errors import Corrupt, WireError
from protocol.iomessage import IoMessage, Quirk
from protocol.iomessage.fields import INTEGER_LIMITS, REQUIRED, TEXT_LIMITS
from tests.support.iomessage_samples import EVERY_FIELD, REQUIRED_FIELDS, message


def test_absent_fields_are_none_and_differ_from_zero_and_empty() -> None:
    bare = message()
    assert bare.tag is None
    assert bare.priority is None
    assert bare.context_data is None
    assert bare.version == 4
    assert message(tag="") != bare
    assert message(priority=0) != bare
    assert message(context_data=b"") != bare


@pytest.mark.parametrize("name", REQUIRED)
def test_a_required_field_cannot_be_left_out(name: str) -> None:
    with pytest.raises(Corrupt, match=f"required but missing: {name}"):
        message(**{name: None})


@pytest.mark.parametrize("name", sorted(set(REQUIRED) - {"timestamp", "content_data"}))
def test_a_required_text_cannot_be_empty(name: str) -> None:
    with pytest.raises(Corrupt, match=f"required but missing: {name}"):
        message(**{name: ""})


def test_empty_content_is_content() -> None:
    assert message(content_data=b"").missing == ()


@pytest.mark.parametrize("name", TEXT_LIMITS)
def test_text_is_measured_in_encoded_bytes(name: str) -> None:
    limit = TEXT_LIMITS[name].hard
    exact = "é" * (limit // 2) + "x" * (limit % 2)
    assert getattr(IoMessage.from_bytes(message(**{name: exact}).to_bytes()), name) == exact
    with pytest.raises(Corrupt, match=f"{name} is {limit + 1} bytes long in UTF-8; the limit is {limit}"):
        message(**{name: exact + "x"})


@pytest.mark.parametrize("name", INTEGER_LIMITS)
def test_integers_are_unsigned_64_bits(name: str) -> None:
    assert getattr(IoMessage.from_bytes(message(**{name: 2**64 - 1}).to_bytes()), name) == 2**64 - 1
    for wrong in (-1, 2**64, 10**6000):
        with pytest.raises(Corrupt, match=f"{name} must be between 0 and 18446744073709551615"):
            message(**{name: wrong})


@pytest.mark.parametrize(
    ("name", "wrong", "problem"),
    [
        ("tag", 0, "tag must be text, not int"),
        ("tag", b"x", "tag must be text, not bytes"),
        ("priority", True, "priority must be an integer, not bool"),
        ("priority", 0.0, "priority must be an integer, not float"),
        ("timestamp", "1", "timestamp must be an integer, not str"),
        ("content_data", "x", "content_data must be bytes, not str"),
        ("context_data", bytearray(b"x"), "context_data must be bytes, not bytearray"),
        ("version", 5, "version must be 4, not 5"),
        ("tag", "a\ud800", "tag holds a lone surrogate at character 1"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_by_name(name: str, wrong: object, problem: str) -> None:
    with pytest.raises(Corrupt, match=problem):
        message(**{name: wrong})


def test_a_time_that_readers_would_take_for_a_double_is_refused() -> None:
    with pytest.raises(Corrupt, match=r"would read its 8 bytes as the double 2\.0"):
        message(timestamp=0x4000_0000_0000_0000)
    assert message(sequence_number=0x4000_0000_0000_0000).sequence_number == 0x4000_0000_0000_0000


def test_a_message_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        message().tag = "other"  # type: ignore[misc]


@pytest.mark.parametrize("method", ["replace", "_replace", "__replace__"])
def test_a_replaced_field_is_checked_like_any_other(method: str) -> None:
    change = getattr(message(), method)
    assert change(tag="new").tag == "new"
    with pytest.raises(Corrupt):
        change(tag="x" * 70_000)


def test_a_message_survives_pickle_and_copy() -> None:
    read = IoMessage.from_bytes(bytes.fromhex("0004") + bytes(31))
    for original in (message(**EVERY_FIELD), read):
        assert pickle.loads(pickle.dumps(original)) == original
        assert copy.copy(original) == original
        assert type(copy.deepcopy(original)) is IoMessage


def test_what_a_writer_left_out_is_named() -> None:
    nothing = IoMessage.from_bytes(bytes.fromhex("0004") + bytes(31))
    assert nothing.missing == ("id", "timestamp", "publisher", "info_type", "info_format")
    assert IoMessage.from_json('{"id":""}').missing == REQUIRED
    assert message().missing == ()


def test_fields_that_some_decoder_misreads_are_named() -> None:
    assert message(**EVERY_FIELD).beyond_safe_limits == ()
    beyond = message(id="é" * 64, tag="x" * 32_768, priority=128, sequence_number=2**31, timestamp=2**48)
    assert beyond.beyond_safe_limits == ("id", "tag", "sequence_number", "priority", "timestamp")


def test_every_wire_error_is_a_value_error() -> None:
    assert issubclass(WireError, ValueError)


def test_a_built_message_has_no_quirks() -> None:
    assert IoMessage(**REQUIRED_FIELDS).quirks is Quirk.NONE
