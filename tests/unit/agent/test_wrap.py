import base64
import json
from pathlib import Path

import pytest

from agent.clock import CeilingFile, ChainReferences, ClockReading
from agent.errors import StorageError
from agent.journal import Entry
from agent.journal_thread import JournalFloor
from agent.routing import Route
from agent.wrap import Locked, Wrapped, Wrapper
from drivers.reading import Reading
from protocol.clock import ClockContext
from protocol.iomessage import ChainVerifier, IoMessage
from protocol.reference import Reference
from protocol.scalars import decode_scalar
from protocol.streamr import Signer, StreamMessage, parse_stream_message
from protocol.streamr.signing import Verdict, Verifier

SIGNER = Signer(b"\x07" * 32)
NOW_MS = 1_700_000_000_000
BINARY = Route("0xab/plant", 0, "binary", 4, "", "none")
JSON = BINARY._replace(stream_id="0xab/json", content="json", priority=2)
SECRET = BINARY._replace(stream_id="0xab/secret", encryption="aes")
MAX_PAYLOAD_BYTES = 100_000


class BrokenLock:
    """Fails as often as it is told to, as a disk does that keeps no key."""

    def __init__(self, failures: int) -> None:
        self.failures = failures

    def of(self, stream_id: str) -> "BrokenLock":
        assert stream_id == SECRET.stream_id
        return self

    def lock(self, content: str, now_ms: int) -> Locked:  # noqa: ARG002
        if self.failures:
            self.failures -= 1
            raise OSError(28, "No space left on device")
        return Locked(content[::-1], "key", None)


def _wrapper(folder: Path, floor: Reference | None = None, locks: BrokenLock | None = None) -> Wrapper:
    references = ChainReferences(CeilingFile(folder / "ceiling"), JournalFloor(floor))
    return Wrapper(SIGNER, references, max_payload_bytes=MAX_PAYLOAD_BYTES, locks=locks)


def _clock(now_ms: int = NOW_MS, *, is_synchronised: bool = True) -> ClockReading:
    return ClockReading(
        now_ms=now_ms, monotonic_ms=90_000, boot_id=bytes(16), is_synchronised=is_synchronised, max_error_ms=1
    )


def _readings(count: int, taken_at_ms: int = NOW_MS) -> list[Reading]:
    return [Reading("s", "temperature", 20.5 + at, "Cel", taken_at_ms=taken_at_ms) for at in range(count)]


def _wrap(wrapper: Wrapper, route: Route, readings: list[Reading], clock: ClockReading) -> list[Entry]:
    wrapped = Wrapped.nothing()
    wrapper.wrap([(route, readings)], clock, wrapped)
    assert not wrapped.refused
    return wrapped.lanes[route.priority]


def _messages(entries: list[Entry]) -> list[StreamMessage]:
    return [parse_stream_message(entry.payload) for entry in entries]


def _io(message: StreamMessage) -> IoMessage:
    document = json.loads(message.content)
    if "ioMessage" in document:
        return IoMessage.from_bytes(base64.b64decode(document["ioMessage"]))
    return IoMessage.from_json(message.content)


@pytest.mark.parametrize("route", [BINARY, JSON])
def test_messages_are_signed_chained_and_say_what_was_read(tmp_path: Path, route: Route) -> None:
    wrapper = _wrapper(tmp_path)
    messages = _messages(_wrap(wrapper, route, _readings(3), _clock()) + _wrap(wrapper, route, _readings(2), _clock()))
    verifier, links, previous = Verifier(), ChainVerifier(), None
    for message in messages:
        assert verifier.verify(message) is Verdict.VERIFIED
        assert links.check(_io(message)) is None
        assert message.prev_msg_ref == previous
        previous = message.message_id.ref
    first = _io(messages[0])
    assert (first.publisher, first.info_type, first.info_format, first.priority) == (
        "s",
        "temperature",
        "Cel/cbor",
        route.priority,
    )
    assert decode_scalar(first.content_data or b"") == 20.5


def test_raw_bytes_keep_their_type_and_content(tmp_path: Path) -> None:
    reading = Reading("camera", "picture", b"\xff\xd8jpeg", taken_at_ms=NOW_MS, mime_type="image/jpeg")
    io = _io(_messages(_wrap(_wrapper(tmp_path), BINARY, [reading], _clock()))[0])
    assert (io.info_format, io.content_data) == ("image/jpeg", b"\xff\xd8jpeg")


def test_a_clock_that_is_set_back_never_turns_a_chain_back(tmp_path: Path) -> None:
    wrapper = _wrapper(tmp_path)
    clocks = [_clock(NOW_MS), _clock(NOW_MS - 3_600_000), _clock(NOW_MS - 7_200_000), _clock(NOW_MS + 5)]
    entries = [entry for clock in clocks for entry in _wrap(wrapper, BINARY, _readings(3), clock)]
    references = [(entry.timestamp_ms, entry.sequence) for entry in entries]
    assert references == sorted(set(references))
    assert all(
        message.prev_msg_ref is None or message.prev_msg_ref < message.message_id.ref for message in _messages(entries)
    )


def test_a_new_process_begins_after_all_that_the_journal_holds(tmp_path: Path) -> None:
    floor = Reference(NOW_MS + 60_000, 3)
    (entry,) = _wrap(_wrapper(tmp_path, floor), BINARY, _readings(1), _clock())
    assert (entry.timestamp_ms, entry.sequence) > floor
    assert _io(_messages([entry])[0]).chain_position == 0


def test_while_the_time_is_not_known_messages_carry_the_counter_of_their_reading(tmp_path: Path) -> None:
    clock = _clock(is_synchronised=False)
    (entry,) = _wrap(_wrapper(tmp_path), BINARY, _readings(1, taken_at_ms=NOW_MS - 1500), clock)
    context = ClockContext.from_bytes(_io(_messages([entry])[0]).context_data or b"")
    assert context == ClockContext(boot_id=bytes(16), monotonic_ms=88_500, is_synchronised=False)


def test_a_reading_from_before_the_clock_was_set_carries_the_counter_though_the_time_is_known_now(
    tmp_path: Path,
) -> None:
    (entry,) = _wrap(_wrapper(tmp_path), BINARY, _readings(1, taken_at_ms=61_000), _clock())
    context = ClockContext.from_bytes(_io(_messages([entry])[0]).context_data or b"")
    assert context == ClockContext(boot_id=bytes(16), monotonic_ms=90_000, is_synchronised=False)


def test_what_no_message_can_hold_is_refused_and_leaves_no_hole(tmp_path: Path) -> None:
    good = _readings(1)[0]
    too_long = Reading("camera", "picture", bytes(MAX_PAYLOAD_BYTES), taken_at_ms=NOW_MS, mime_type="image/jpeg")
    wrapped = Wrapped.nothing()
    _wrapper(tmp_path).wrap([(BINARY, [good, too_long, good])], _clock(), wrapped)
    assert [refused.reading for refused in wrapped.refused] == [too_long]
    assert [_io(message).chain_position for message in _messages(wrapped.lanes[4])] == [0, 1]


def test_a_source_that_invents_sensors_costs_no_more_than_so_many_chains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.wrap.MAX_CHAINS", 2)
    wrapper = _wrapper(tmp_path)
    routes = [BINARY._replace(stream_id=f"0xab/{number}") for number in range(3)]
    names = [_wrap(wrapper, routes[number], _readings(2), _clock())[0].chain for number in (0, 1, 0, 2, 0, 1)]
    assert names[0] == names[2] == names[4], "it was used all the time"
    assert names[1] != names[5], "it ended for the third"
    assert len(wrapper._chains) == 2
    [first, second] = _messages(_wrap(wrapper, routes[2], _readings(2), _clock()))
    assert first.prev_msg_ref is None
    assert second.prev_msg_ref is not None


def test_a_disk_that_keeps_no_key_is_asked_again_and_breaks_no_chain(tmp_path: Path) -> None:
    wrapper = _wrapper(tmp_path, locks=BrokenLock(failures=1))
    routed = [(BINARY, _readings(2)), (SECRET, _readings(2))]
    wrapped = Wrapped.nothing()
    with pytest.raises(StorageError, match="No space left"):
        wrapper.wrap(routed, _clock(), wrapped)  # type: ignore[arg-type]
    assert [route for route, _ in routed] == [SECRET]
    wrapper.wrap(routed, _clock(), wrapped)  # type: ignore[arg-type]
    assert not routed
    plain, locked = _messages(wrapped.lanes[4])[:2], _messages(wrapped.lanes[4])[2:]
    assert [message.prev_msg_ref for message in plain] == [None, plain[0].message_id.ref]
    assert [message.prev_msg_ref for message in locked] == [None, locked[0].message_id.ref]
    assert locked[0].group_key_id == "key"


def test_payloads_are_within_what_was_promised_to_the_journal(tmp_path: Path) -> None:
    largest = Reading("c", "p", bytes((MAX_PAYLOAD_BYTES - 8192) // 2), taken_at_ms=NOW_MS, mime_type="image/jpeg")
    for route in (BINARY, JSON):
        (tmp_path / route.content).mkdir()
        (entry,) = _wrap(_wrapper(tmp_path / route.content), route, [largest], _clock())
        assert len(entry.payload) <= MAX_PAYLOAD_BYTES
