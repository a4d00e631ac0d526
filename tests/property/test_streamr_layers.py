"""Laws of every Streamr layer: what is written is read again, and any text gives a value or a WireError."""

import contextlib
import json
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import Unsupported, WireError
from protocol.streamr.control import (
    BroadcastMessage,
    ControlMessage,
    ErrorResponse,
    LegacyPublishRequest,
    LegacyResendRequest,
    PublishRequest,
    ResendFromRequest,
    ResendLastRequest,
    ResendRangeRequest,
    SubscribeRequest,
    parse_control_message,
)
from protocol.streamr.ids import MessageID, MessageRef, next_message_ref
from protocol.streamr.network import parse_network_message
from protocol.streamr.stream_message import (
    ContentType,
    EncryptedGroupKey,
    EncryptionType,
    LegacyOffsets,
    MessageType,
    SignatureType,
    StreamMessage,
    parse_stream_message,
)
from protocol.streamr.tracker import parse_tracker_message
from tests.fuzz import streamr_control, streamr_group_keys, streamr_network, streamr_stream, streamr_tracker
from tests.support.streamr_vectors import load_vectors

PARSERS: dict[str, Callable[[str | bytes], Any]] = {
    "stream": parse_stream_message,
    "control": parse_control_message,
    "tracker": parse_tracker_message,
    "network": parse_network_message,
}
FUZZERS: list[Callable[[bytes], None]] = [
    target.fuzz_one
    for target in (streamr_stream, streamr_control, streamr_tracker, streamr_network, streamr_group_keys)
]
REAL_TEXTS: dict[str, list[str]] = {
    "stream": [vector["serialized"] for vector in load_vectors("messages_stream")],
    "control": [v["serialized"] for version in "012" for v in load_vectors(f"messages_control_v{version}")],
    "tracker": [vector["serialized"] for vector in load_vectors("messages_tracker")],
    "network": [vector["serialized"] for vector in load_vectors("messages_network") if "fields" in vector],
}

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
filled_texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
counts = st.integers(0, 2**53 - 1)
optional_texts = st.none() | texts
refs = st.builds(MessageRef, counts, counts)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 40) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=30,
)


@st.composite
def modern_messages(draw: st.DrawFn) -> StreamMessage:
    """A message of 30, 31, 32 or the draft of 32, with whatever its version can hold."""
    version = draw(st.sampled_from([30, 31, 32]))
    draft = version == 32 and draw(st.booleans())
    earlier, own = draw(st.tuples(refs, refs).filter(lambda pair: pair[0] != pair[1]).map(sorted))
    encryption_types = {30: [0], 31: [0, 1, 2, 3], 32: [0, 1, 2]}[version]
    return StreamMessage(
        MessageID(draw(filled_texts), draw(counts), *own, draw(texts), draw(texts)),
        draw(filled_texts),
        draw(st.sampled_from([None, earlier])),
        draw(st.sampled_from(MessageType)) if draft else MessageType(draw(st.integers(27, 31))),
        ContentType.JSON,
        EncryptionType(draw(st.sampled_from(encryption_types))),
        draw(optional_texts) if version == 32 else None,
        draw(st.none() | st.builds(EncryptedGroupKey.build, texts, texts)) if version == 32 and not draft else None,
        draw(st.sampled_from(SignatureType)),
        draw(optional_texts),
        version,
        draft,
    )


@st.composite
def legacy_messages(draw: st.DrawFn) -> StreamMessage:
    version = draw(st.sampled_from([28, 29]))
    signed = version == 29
    return StreamMessage(
        MessageID(draw(filled_texts), draw(counts), draw(counts), 0, draw(texts) if signed else "", ""),
        json.dumps(draw(json_values)),
        signature_type=draw(st.sampled_from(SignatureType)) if signed else SignatureType.NONE,
        signature=draw(optional_texts) if signed else None,
        version=version,
        legacy=LegacyOffsets(
            ttl=draw(st.none() | counts), offset=draw(counts), previous_offset=draw(st.none() | counts)
        ),
    )


stream_messages = modern_messages() | legacy_messages()
CONTROL_KINDS: list[type[ControlMessage]] = [
    BroadcastMessage,
    PublishRequest,
    SubscribeRequest,
    ErrorResponse,
    ResendLastRequest,
    ResendFromRequest,
    ResendRangeRequest,
]


@st.composite
def control_messages(draw: st.DrawFn) -> ControlMessage:
    kind = draw(st.sampled_from(CONTROL_KINDS))
    first, last = sorted([draw(refs), draw(refs)])
    choices: dict[str, st.SearchStrategy[Any]] = {
        "request_id": filled_texts,
        "stream_id": filled_texts,
        "stream_partition": counts,
        "stream_message": modern_messages().filter(lambda message: not message.draft),
        "session_token": optional_texts,
        "error_message": texts,
        "error_code": texts,
        "number_last": counts,
        "from_msg_ref": st.just(first),
        "to_msg_ref": st.just(last),
        "publisher_id": optional_texts,
    }
    return kind(**{each.name: draw(choices[each.name]) for each in fields(kind) if each.name in choices})


legacy_requests: st.SearchStrategy[ControlMessage] = st.builds(
    LegacyPublishRequest,
    request_id=st.just(""),
    version=st.just(0),
    stream_id=filled_texts,
    content=texts,
    timestamp=st.none() | counts,
    partition_key=optional_texts,
    publisher_id=optional_texts,
    signature_type=st.none() | st.sampled_from(SignatureType),
    signature=optional_texts,
    auth_key=texts,
    session_token=optional_texts,
) | st.builds(
    LegacyResendRequest,
    request_id=filled_texts,
    version=st.just(0),
    stream_id=filled_texts,
    stream_partition=counts,
    resend_all=st.just(True),
    resend_last=st.none() | counts,
    resend_from=st.none() | counts,
    resend_to=st.none() | counts,
    resend_from_time=st.none() | counts,
    auth_key=optional_texts,
    session_token=optional_texts,
)


@given(stream_messages)
def test_a_stream_message_that_is_written_is_read_again(message: StreamMessage) -> None:
    assert parse_stream_message(message.serialize(), draft=message.draft) == message


@given(stream_messages, st.sampled_from([28, 29, 30, 31, 32]))
def test_a_converted_stream_message_keeps_its_content_or_is_refused(message: StreamMessage, version: int) -> None:
    try:
        converted = parse_stream_message(message.serialize(version=version))
    except Unsupported:
        return
    assert (converted.version, converted.content) == (version, message.content)
    assert converted.message_id[:3] == message.message_id[:3]


@given(stream_messages, st.data())
def test_no_beginning_of_a_stream_message_is_a_message(message: StreamMessage, data: st.DataObject) -> None:
    text = message.serialize()
    with pytest.raises(WireError):
        parse_stream_message(text[: data.draw(st.integers(0, len(text) - 1))])


@given(control_messages() | legacy_requests)
def test_a_control_message_that_is_written_is_read_again(message: ControlMessage) -> None:
    assert parse_control_message(message.serialize()) == message


@given(control_messages())
def test_a_control_message_survives_version_1_but_for_what_that_lacks(message: ControlMessage) -> None:
    text = message.serialize(version=1)
    assert parse_control_message(text).serialize() == text


@given(st.one_of(st.text(), st.binary(), json_values.map(json.dumps)))
def test_any_text_gives_a_value_or_a_wire_error_and_nothing_else(text: str | bytes) -> None:
    for parse in PARSERS.values():
        with contextlib.suppress(WireError):
            parse(text)


@given(st.binary())
def test_the_fuzz_targets_hold_for_any_bytes(data: bytes) -> None:
    for fuzz_one in FUZZERS:
        fuzz_one(data)


@pytest.mark.parametrize("layer", PARSERS)
@given(data=st.data())
def test_a_real_message_with_one_part_replaced_gives_a_value_or_a_wire_error(layer: str, data: st.DataObject) -> None:
    message = json.loads(data.draw(st.sampled_from(REAL_TEXTS[layer])))
    replace_somewhere(message, data)
    for fuzz_one in FUZZERS:
        fuzz_one(json.dumps(message).encode())


def replace_somewhere(node: Any, data: st.DataObject) -> None:
    keys = list(node) if isinstance(node, dict) else list(range(len(node)))
    if not keys:
        return
    key = data.draw(st.sampled_from(keys))
    if isinstance(node[key], list | dict) and data.draw(st.booleans()):
        replace_somewhere(node[key], data)
    else:
        node[key] = data.draw(json_values)


@given(st.lists(counts, min_size=1, max_size=30))
def test_a_chain_only_ever_moves_forward(clock: list[int]) -> None:
    chain: list[MessageRef] = []
    for now in clock:
        chain.append(next_message_ref(chain[-1] if chain else None, now))
    assert chain == sorted(set(chain))
