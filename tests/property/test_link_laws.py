"""The four laws of decoders, for the link's frames and messages."""

import cbor2
from cobs import cobs
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import WireError
from protocol.link import (
    MAX_PAYLOAD_BYTES,
    Ack,
    Command,
    CommandDescription,
    CommandResult,
    CommandStatus,
    DescriptionRequest,
    Feature,
    Frame,
    FrameType,
    Hello,
    LinkDecoder,
    LogLevel,
    LogLine,
    Message,
    Proof,
    Record,
    Sample,
    SensorDescription,
    Sync,
    Time,
    TimeRequest,
    UpdateBegin,
    UpdateChunk,
    UpdateConfirm,
    UpdateEnd,
    UpdateQuery,
    UpdateReason,
    UpdateState,
    UpdateStatus,
    frame_of,
    message_in,
)
from protocol.link.cobs import stuff, unstuff

uint32 = st.integers(0, 2**32 - 1)
uptimes = st.integers(0, 2**48 - 1)
printable = st.characters(exclude_categories=("C", "Z"))
names = st.text(printable, min_size=1, max_size=8)
values = st.none() | st.integers(-(2**31), 2**31 - 1) | st.text(printable, max_size=16)
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(Sync, host_nonce=st.binary(min_size=8, max_size=8), retry_ms=st.integers(1, 60_000)),
    st.builds(
        Hello,
        host_nonce=st.just(b"") | st.binary(min_size=8, max_size=8),
        boot_id=st.binary(min_size=8, max_size=8),
        syncs=uint32,
        device_id=names,
        firmware=names,
        mtu=st.integers(160, 1024),
        window=st.integers(1, 16),
        sensors=st.integers(0, 255),
        commands=st.integers(0, 255),
        schema=uint32,
        next_rseq=uint32,
        dropped=uint32,
        last_command=uint32,
        uptime_ms=uptimes,
        features=st.integers(0, 2**32 - 1).map(Feature),
    ),
    st.builds(DescriptionRequest, index=st.integers(0, 510)),
    st.builds(
        SensorDescription,
        index=st.integers(0, 254),
        name=names,
        quantity=names,
        unit=st.text(printable, max_size=4),
        exponent=st.integers(-18, 18),
    ),
    st.builds(CommandDescription, index=st.integers(0, 510), name=names, argument=st.text(printable, max_size=8)),
    st.builds(
        Record,
        rseq=uint32,
        uptime_ms=uptimes,
        samples=st.lists(
            st.builds(Sample, st.integers(0, 254), st.none() | st.integers(-(2**63), 2**63 - 1)),
            min_size=1,
            max_size=64,
        ).map(tuple),
    ),
    st.builds(Ack, committed_rseq=uint32),
    st.builds(TimeRequest, token=uint32),
    st.builds(Time, token=uint32, uptime_ms=uptimes),
    st.builds(Command, id=st.integers(1, 2**32 - 1), command=st.integers(0, 510), argument=values),
    st.builds(CommandResult, id=st.integers(1, 2**32 - 1), status=st.sampled_from(CommandStatus), value=values),
    st.builds(LogLine, number=uint32, level=st.sampled_from(LogLevel), text=st.text(printable, max_size=50)),
    st.builds(UpdateBegin, manifest=st.binary(min_size=1, max_size=256), signature=st.binary(min_size=64, max_size=64)),
    st.builds(UpdateChunk, offset=uint32, data=st.binary(min_size=1, max_size=960)),
    st.sampled_from([UpdateEnd(), UpdateConfirm(), UpdateQuery()]),
    st.builds(
        UpdateStatus, next_offset=uint32, state=st.sampled_from(UpdateState), reason=st.sampled_from(UpdateReason)
    ),
)
TOLERANT = (FrameType.HELLO, FrameType.DESC, FrameType.LOG)  # may say more than we know, or in a way we do not show
ITEMS = st.integers(-(2**70), 2**70) | st.binary(max_size=70) | st.text(max_size=9) | st.none() | st.floats()
FRAMES = st.builds(
    Frame,
    kind=st.sampled_from(FrameType),
    session=st.integers(0, 255),
    seq=st.integers(0, 255),
    is_nak=st.booleans(),
    payload=st.binary(max_size=MAX_PAYLOAD_BYTES),
    proof=st.none() | st.builds(Proof, uint32, st.binary(min_size=8, max_size=8)),
)


@given(MESSAGES)
def test_a_message_is_the_same_after_its_journey(message: Message) -> None:
    (frame,) = LinkDecoder().feed(frame_of(message, session=7).to_bytes())
    assert isinstance(frame, Frame)
    assert message_in(frame) == message


@given(FRAMES)
def test_a_frame_is_the_same_after_its_journey(frame: Frame) -> None:
    assert LinkDecoder().feed(frame.to_bytes()) == [frame]


@given(FRAMES, st.data())
def test_a_beginning_of_a_frame_is_no_event(frame: Frame, data: st.DataObject) -> None:
    wire = frame.to_bytes()
    assert LinkDecoder().feed(wire[: data.draw(st.integers(0, len(wire) - 1))]) == []


@given(st.lists(FRAMES.map(Frame.to_bytes) | st.binary(max_size=20), max_size=5), st.integers(1, 50))
def test_a_stream_says_the_same_however_it_is_cut(pieces: list[bytes], size: int) -> None:
    stream, decoder = b"".join(pieces), LinkDecoder()
    cut = [event for start in range(0, len(stream), size) for event in decoder.feed(stream[start : start + size])]
    assert cut == LinkDecoder().feed(stream)


@given(st.binary())
def test_any_bytes_are_frames_or_damage(data: bytes) -> None:
    for event in LinkDecoder().feed(data + b"\0"):
        if isinstance(event, Frame):
            _read(event)


@given(st.sampled_from(FrameType), st.binary() | st.lists(ITEMS, max_size=16).map(cbor2.dumps))
def test_any_payload_is_a_message_or_a_wire_error(kind: FrameType, payload: bytes) -> None:
    _read(Frame(kind=kind, payload=payload[:MAX_PAYLOAD_BYTES]))


@given(MESSAGES, st.data())
def test_a_payload_with_a_part_changed_is_a_message_or_a_wire_error(message: Message, data: st.DataObject) -> None:
    payload = bytearray(message.to_bytes())
    payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    _read(Frame(kind=message.KIND, payload=bytes(payload)))


@given(MESSAGES, st.data())
def test_every_beginning_of_a_payload_is_refused(message: Message, data: st.DataObject) -> None:
    payload = message.to_bytes()
    cut = Frame(kind=message.KIND, payload=payload[: data.draw(st.integers(0, len(payload) - 1))])
    try:
        message_in(cut)
    except WireError:
        return
    raise AssertionError(f"{cut} was taken")


def _read(frame: Frame) -> None:
    try:
        message = message_in(frame)
    except WireError:
        return
    if frame.kind not in TOLERANT:
        assert message.to_bytes() == frame.payload


@given(st.binary(max_size=1100) | st.binary(max_size=4).map(lambda piece: (piece or b"\1") * 300))
def test_stuffing_agrees_with_the_package_of_that_name(data: bytes) -> None:
    assert stuff(data) == cobs.encode(data)
    assert unstuff(stuff(data)) == data


@given(st.binary(min_size=1, max_size=40).filter(lambda data: 0 not in data))
def test_unstuffing_agrees_on_what_was_never_stuffed(data: bytes) -> None:
    try:
        expected: bytes | None = cobs.decode(data)
    except cobs.DecodeError:
        expected = None
    try:
        found: bytes | None = unstuff(data)
    except WireError:
        found = None
    assert found == expected
