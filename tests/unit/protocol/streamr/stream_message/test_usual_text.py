"""Whatever the fast readers accept, the general codec reads too, and makes the same of it."""

from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from protocol.errors import WireError
from protocol.iomessage.content import encode_binary_content
from protocol.streamr.ids import MessageRef
from protocol.streamr.stream_message import EncryptionType, MessageType, parse_stream_message
from protocol.streamr.stream_message.peek import peek_content, peek_message_id
from protocol.streamr.stream_message.signing import signed_digest
from protocol.streamr.stream_message.usual_text import parse_usual_text
from testbed.corpus.archives import Device
from tests.support.streamr_vectors import load_vectors

CHAIN = Device(5).chain("boiler")
TEXTS = [CHAIN.reading(float(number), 1_790_000_000_000 + number).text for number in range(3)]
ODD: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    2,
    27,
    32,
    0.0,
    "0",
    "",
    "32",
    [],
    {},
    [1, 2],
    -1,
    2**60,
    1e9,
    "0x" + "00" * 65,
]
telling = st.sampled_from(b'=A/+09afg",\\[]{}- \n\x80')
changes = st.lists(st.tuples(st.integers(0, min(map(len, TEXTS)) - 1), telling | st.integers(0, 255)), max_size=3)


def check(text: bytes) -> bool:
    """Whether the fast reader accepts the text; then the general one says the same."""
    _check_peeking(text)
    usual = parse_usual_text(text)
    if usual is None:
        return False
    message = parse_stream_message(text)
    stream, partition, chain = usual.identity
    assert message.message_id == (stream.decode(), int(partition), *usual.ref, usual.publisher.decode(), chain.decode())
    assert message.prev_msg_ref == (None if usual.previous is None else MessageRef(*usual.previous))
    assert (message.message_type, message.encryption_type) == (MessageType.MESSAGE, EncryptionType.NONE)
    assert (message.signature or "").lower() == "0x" + usual.signature.hex()
    assert message.content == encode_binary_content([b""]).replace('""', f'"{usual.base64.decode()}"')
    assert usual.digest == signed_digest(message)
    assert message.serialize().encode() == text
    return True


def _check_peeking(text: bytes) -> None:
    try:
        message = parse_stream_message(text)
    except WireError:
        return
    assert peek_message_id(text) in (None, message.message_id)
    content = peek_content(text)
    assert content is None or content == (message.encryption_type, message.content)


@pytest.mark.parametrize("text", TEXTS)
def test_the_text_of_a_reading_is_accepted(text: bytes) -> None:
    assert check(text)
    assert peek_message_id(text) == parse_stream_message(text).message_id
    assert peek_content(text) == (EncryptionType.NONE, parse_stream_message(text).content)


@given(text=st.sampled_from(TEXTS), changes=changes)
@example(text=TEXTS[0], changes=[])
def test_a_changed_text_is_read_as_the_general_codec_reads_it(text: bytes, changes: list[tuple[int, int]]) -> None:
    changed = bytearray(text)
    for place, byte in changes:
        changed[place] = byte
    check(bytes(changed))


@pytest.mark.parametrize("odd", ODD)
def test_a_changed_element_is_read_as_the_general_codec_reads_it(odd: Any) -> None:
    for path in [(place,) for place in range(11)] + [(1, place) for place in range(6)] + [(2, 0), (2, 1)]:
        elements = orjson.loads(TEXTS[1])
        target = elements if len(path) == 1 else elements[path[0]]
        target[path[-1]] = odd
        check(orjson.dumps(elements))


@given(text=st.binary(max_size=40) | st.text(max_size=40).map(str.encode))
def test_any_other_text_is_left_to_the_general_codec(text: bytes) -> None:
    assert not check(text)


@pytest.mark.parametrize("vector", load_vectors("messages_stream"))
def test_messages_of_real_releases_are_peeked_at_as_the_general_codec_reads_them(vector: dict[str, Any]) -> None:
    text = vector["serialized"].encode()
    check(text)
    assert (peek_message_id(text) is None) == (vector["version"] < 30)
