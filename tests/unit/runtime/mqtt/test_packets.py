import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.mqtt import packets
from runtime.mqtt.packets import MAX_CONTROL_BYTES, Message, Parsed, acknowledgements, check_packet

PINGRESP = b"\xd0\0"
MAX_BYTES = 1_000_000


def parse_publications(data: bytes, *, is_v5: bool) -> Parsed:
    return packets.parse_publications(data, is_v5=is_v5, max_bytes=MAX_BYTES)


def publication(
    topic: str,
    payload: bytes,
    *,
    number: int = 0,
    is_v5: bool = False,
    is_duplicate: bool = False,
    is_retained: bool = False,
    properties: bytes = b"",
) -> bytes:
    """As a broker writes it."""
    encoded = topic.encode()
    body = len(encoded).to_bytes(2) + encoded
    body += number.to_bytes(2) if number else b""
    body += length(len(properties)) + properties if is_v5 else b""
    body += payload
    head = 0x30 | (0x02 if number else 0) | (0x08 if is_duplicate else 0) | (0x01 if is_retained else 0)
    return bytes([head]) + length(len(body)) + body


def length(number: int) -> bytes:
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


MESSAGES = st.builds(
    Message,
    st.text(st.characters(codec="utf-8"), max_size=40),
    st.binary(max_size=300),
    st.integers(0, 65_535),
    st.booleans(),
    st.booleans(),
)


def written(message: Message, *, is_v5: bool, properties: bytes = b"") -> bytes:
    return publication(
        message.topic,
        message.payload,
        number=message.number,
        is_v5=is_v5,
        is_duplicate=message.is_duplicate,
        is_retained=message.is_retained,
        properties=properties,
    )


@given(st.lists(MESSAGES), st.booleans(), st.binary(max_size=200))
def test_all_that_waits_is_taken_apart_at_once(messages: list[Message], is_v5: bool, properties: bytes) -> None:
    data = b"".join(written(message, is_v5=is_v5, properties=properties) for message in messages)
    assert parse_publications(data, is_v5=is_v5) == Parsed(messages, len(data), 0)


@given(st.lists(MESSAGES, min_size=1, max_size=3), st.booleans(), st.data())
def test_what_is_not_all_there_is_left(messages: list[Message], is_v5: bool, draw: st.DataObject) -> None:
    data = b"".join(written(message, is_v5=is_v5) for message in messages)
    last_bytes = len(written(messages[-1], is_v5=is_v5))
    missing = draw.draw(st.integers(1, last_bytes))
    taken = parse_publications(data[:-missing], is_v5=is_v5)
    assert taken.messages == messages[:-1]
    assert taken.used_bytes == len(data) - last_bytes
    assert taken.next_bytes in (0, last_bytes)


def test_a_packet_of_another_kind_is_left_to_others_with_its_size() -> None:
    first, second = publication("a", b"1", number=1), publication("a", b"2", number=2)
    taken = parse_publications(first + PINGRESP + second, is_v5=False)
    assert taken == Parsed([Message("a", b"1", 1, False, False)], len(first), len(PINGRESP))


def test_a_topic_that_is_no_text_is_still_a_message_to_acknowledge() -> None:
    packet = publication("abc", b"1", number=9).replace(b"abc", b"\xff\xfe\xfd")
    (message,) = parse_publications(packet, is_v5=False).messages
    assert message.number == 9


@pytest.mark.parametrize(
    "data",
    [
        b"\x34\x06\0\1a\0\1x",  # QoS 2
        b"\x36\x06\0\1a\0\1x",  # QoS 3
        b"\x32\x05\0\1a\0\0",  # no number
        b"\x30\x00",  # no topic
        b"\x30\x01\0",
        b"\x30\x04\0\x09ab",  # a topic longer than its packet
        b"\x32\x04\0\1a\1",  # half a number
        b"\x30\xff\xff\xff\xff\x01",  # a length of five bytes
        b"\x90" + length(MAX_CONTROL_BYTES),
        b"\x30" + length(MAX_BYTES),
        b"\x40\xff\xff\xff\x7f",  # 256 MB of an acknowledgement
    ],
)
def test_what_is_not_mqtt_as_agreed_on_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"publication|length|packet"):
        parse_publications(data, is_v5=False)


@pytest.mark.parametrize("data", [b"\x30\x03\0\1a", b"\x30\x05\0\1a\x05x", b"\x30\x05\0\1a\xff\xff"])
def test_properties_that_end_beyond_their_packet_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="ends before its payload"):
        parse_publications(data + publication("a", b"1", number=1, is_v5=True), is_v5=True)


def test_acknowledgements_come_in_one_piece_and_in_order() -> None:
    assert acknowledgements([1, 258, 65_535]) == b"\x40\2\0\1" + b"\x40\2\1\2" + b"\x40\2\xff\xff"


def test_a_broker_first_sends_connack_and_then_only_expected_packets() -> None:
    after = {0x20: "CONNACK", 0x40: "PUBACK", 0x90: "SUBACK", 0xD0: "PINGRESP"}
    for is_v5 in (False, True):
        for head in range(256):
            for is_connected, allowed in (
                (False, {0x20}),
                (True, {*after, *range(0x30, 0x40), *([0xE0] * is_v5)} - {0x20}),
            ):
                try:
                    check_packet(head, is_v5=is_v5, is_connected=is_connected)
                except ValueError:
                    assert head not in allowed, hex(head)
                else:
                    assert head in allowed, hex(head)
