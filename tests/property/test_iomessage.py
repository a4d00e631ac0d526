"""Laws that hold for every ioMessage and for every input whatsoever."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from protocol.errors import Truncated, WireError
from protocol.iomessage import (
    EMPTY_CHAIN,
    ChainHead,
    ChainLinker,
    IoMessage,
    IoMessageReader,
    LinkedTemplate,
    Quirk,
    hash_link,
    verify_chain,
)
from protocol.iomessage.as_xml import _NOT_XML
from protocol.iomessage.fields import BLOB_NAMES, INTEGER_LIMITS, REQUIRED, TEXT_LIMITS, double_in
from tests.support.iomessage_samples import message

integers = st.integers(0, 2**64 - 1) | st.sampled_from([0, 255, 256, 2**48 - 1, 2**48, 2**56, 2**63, 2**64 - 1])
blobs = st.binary(max_size=64)


def texts(name: str) -> st.SearchStrategy[str]:
    fits = st.text(min_size=1, max_size=40).filter(lambda text: len(text.encode()) <= TEXT_LIMITS[name].hard)
    return fits if name in REQUIRED else fits | st.just("x" * TEXT_LIMITS[name].hard)


def field(name: str) -> st.SearchStrategy[Any]:
    if name in TEXT_LIMITS:
        return texts(name)
    if name in BLOB_NAMES:
        return blobs
    return integers.filter(lambda number: double_in(number) is None)


required = {name: field(name) for name in REQUIRED}
optional = {name: field(name) for name in {*TEXT_LIMITS, *INTEGER_LIMITS, *BLOB_NAMES} - set(REQUIRED)}
messages = st.fixed_dictionaries(required, optional=optional).map(lambda fields: IoMessage(**fields))


def with_absent_texts_as(absent: str | None, original: IoMessage) -> IoMessage:
    """Absent and empty are one on the wire, of texts and contents; of integers, absent and 0 are two."""
    changes: dict[str, Any] = {name: getattr(original, name) or absent for name in {*TEXT_LIMITS} - set(REQUIRED)}
    changes["context_data"] = original.context_data or (None if absent is None else absent.encode())
    return original.replace(**changes)


@given(messages)
def test_binary_round_trip(original: IoMessage) -> None:
    assert IoMessage.from_bytes(original.to_bytes()) == with_absent_texts_as(None, original)


@given(messages)
def test_writing_what_was_read_gives_the_same_bytes(original: IoMessage) -> None:
    data = original.to_bytes()
    assert IoMessage.from_bytes(data).to_bytes() == data


@given(messages)
def test_json_round_trip(original: IoMessage) -> None:
    assert IoMessage.from_json(original.to_json()) == with_absent_texts_as("", original)


@given(messages.filter(lambda each: not any(_NOT_XML.search(getattr(each, name) or "") for name in TEXT_LIMITS)))
def test_xml_round_trip(original: IoMessage) -> None:
    assert IoMessage.from_xml(original.to_xml()) == with_absent_texts_as("", original)


@given(messages)
def test_every_strict_prefix_is_truncated(original: IoMessage) -> None:
    data = original.to_bytes()
    for length in {*range(min(len(data), 100)), len(data) // 2, len(data) - 1}:
        with pytest.raises(Truncated):
            IoMessage.from_bytes(data[:length])


@given(st.lists(messages, max_size=4), st.data())
def test_a_stream_read_in_any_pieces_gives_the_same_messages(originals: list[IoMessage], data: st.DataObject) -> None:
    stream = b"".join(each.to_bytes() for each in originals)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=20).map(sorted))
    reader = IoMessageReader(max_message_bytes=1_000_000)
    pieces = [stream[start:end] for start, end in pairwise([0, *cuts, len(stream)])]
    assert [each for piece in pieces for each in reader.feed(piece)] == [
        IoMessage.from_bytes(each.to_bytes()) for each in originals
    ]
    reader.close()


@given(messages)
def test_byte_by_byte_gives_the_same_as_whole(original: IoMessage) -> None:
    data = original.replace(**dict.fromkeys(set(TEXT_LIMITS) - set(REQUIRED))).to_bytes()
    whole, by_byte = IoMessageReader(), IoMessageReader()
    assert [each for byte in data for each in by_byte.feed(bytes([byte]))] == whole.feed(data)


@given(st.binary(max_size=300) | st.binary(max_size=300).map(lambda tail: b"\x00\x04" + tail))
@example(b"")
@example(b"\x00\x04" + bytes(31))
def test_any_bytes_give_a_value_or_a_wire_error(data: bytes) -> None:
    try:
        read = IoMessage.from_bytes(data)
    except WireError:
        return
    if read.quirks is Quirk.NONE:
        assert IoMessage.from_bytes(read.to_bytes()) == read


@given(st.text() | st.binary() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(str))
def test_any_text_gives_a_value_or_a_wire_error(text: str | bytes) -> None:
    for read in (IoMessage.from_json, IoMessage.from_xml):
        try:
            read(text)
        except WireError:
            continue


values = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.lists(st.integers())


@given(
    st.dictionaries(st.sampled_from(["id", "Tag", "PRIORITY", "timestamp", "version", "contentdata", "zzz"]), values)
)
def test_any_json_object_gives_a_value_or_a_wire_error(document: dict[str, object]) -> None:
    try:
        IoMessage.from_json(json.dumps(document))
    except WireError:
        return


@given(st.lists(messages, min_size=1, max_size=6))
def test_a_linked_chain_verifies_and_losing_any_inner_message_shows(originals: list[IoMessage]) -> None:
    head, linked = EMPTY_CHAIN, []
    for each in originals:
        linked.append(hash_link(each, head))
        head = ChainHead.of(linked[-1])
    assert list(verify_chain(linked, head=EMPTY_CHAIN)) == []
    for lost in range(len(linked) - 1):
        assert len(list(verify_chain(linked[:lost] + linked[lost + 1 :], head=EMPTY_CHAIN))) == 1


@given(st.sampled_from([*TEXT_LIMITS]), st.text(min_size=1, max_size=20))
def test_changing_any_text_of_a_linked_message_shows(name: str, text: str) -> None:
    linked = hash_link(message(), EMPTY_CHAIN)
    altered = linked.replace(**{name: text})
    if altered != linked:
        assert len(list(verify_chain([altered], head=EMPTY_CHAIN))) == 1


@given(messages, messages, messages)
def test_the_template_writes_what_link_writes(prototype: IoMessage, first: IoMessage, second: IoMessage) -> None:
    template, linker, head = LinkedTemplate(prototype), ChainLinker(EMPTY_CHAIN), EMPTY_CHAIN
    for each in (first, second):
        varying = {name: getattr(each, name) for name in ("id", "timestamp", "content_data")}
        varying["context_data"] = each.context_data or b""
        [data] = linker.link_all([(template, *varying.values())])
        linked = hash_link(prototype.replace(**varying), head)
        head = ChainHead.of(linked)
        assert data == linked.to_bytes()
        assert linker.head == head
