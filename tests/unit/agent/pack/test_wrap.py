from collections.abc import Callable

import pytest

from agent.clock import ChainReferences, ClockReading
from agent.errors import StorageError
from agent.journal import Entry
from agent.pack.routing import ContentForm, Encryption, Route
from agent.pack.wrap import Encrypt, EncryptedContent, Group, Wrapped, Wrapper
from drivers.reading import Reading
from protocol.clock import ClockContext, ExcursionNotice
from protocol.ethereum.signer import Signer
from protocol.iomessage import ChainVerifier, IoMessage, element_id
from protocol.iomessage.content import MAX_PACK_BYTES, decode_content
from protocol.reference import Reference
from protocol.scalars import decode_scalar
from protocol.streamr.stream_message import StreamMessage, parse_stream_message
from protocol.streamr.stream_message.signing import Verdict, Verifier
from tests.support.ceilings import CeilingInMemory

SIGNER = Signer(b"\x07" * 32)
NOW_MS = 1_700_000_000_000
PACKED = Route("0xab/plant", 0, "binary", 4, "", "none")
BINARY = PACKED._replace(max_readings=1)
JSON = BINARY._replace(stream_id="0xab/json", content="json", priority=2)
SECRET = BINARY._replace(stream_id="0xab/secret", encryption="aes")
MAX_PAYLOAD_BYTES = 100_000


class BrokenLock:
    """An encryption that fails the given number of times, as on a full disk."""

    def __init__(self, failures: int) -> None:
        self.failures = failures

    def encrypt_for(self, stream_id: str) -> Encrypt:
        assert stream_id == SECRET.stream_id
        return self._encrypt

    def _encrypt(self, content: str, now_ms: int) -> EncryptedContent:  # noqa: ARG002
        if self.failures:
            self.failures -= 1
            raise OSError(28, "No space left on device")
        return EncryptedContent(content.encode().hex(), "key", None)  # as long as the real one


def _wrapper(floor: Reference | None = None, encryption: BrokenLock | None = None) -> Wrapper:
    references = ChainReferences(CeilingInMemory(), floor)
    encrypt_for = None if encryption is None else encryption.encrypt_for
    return Wrapper(SIGNER, references, max_payload_bytes=MAX_PAYLOAD_BYTES, encryption=encrypt_for)


def _clock(now_ms: int = NOW_MS, *, is_synchronised: bool = True) -> ClockReading:
    return ClockReading(
        now_ms=now_ms, monotonic_ms=90_000, boot_id=bytes(16), is_synchronised=is_synchronised, max_error_ms=1
    )


def _readings(count: int, taken_at_ms: int = NOW_MS) -> list[Reading]:
    return [Reading("s", "temperature", 20.5 + at, "Cel", taken_at_ms=taken_at_ms) for at in range(count)]


def _wrap(wrapper: Wrapper, route: Route, readings: list[Reading], clock: ClockReading) -> list[Entry]:
    wrapped = Wrapped.nothing()
    wrapper.wrap([Group(route, readings)], clock, wrapped)
    assert not wrapped.refused
    assert {run.lane for run in wrapped.runs} == {route.priority}
    return _entries(wrapped)


def _entries(wrapped: Wrapped) -> list[Entry]:
    return [entry for run in wrapped.runs for entry in run.entries]


def _messages(entries: list[Entry]) -> list[StreamMessage]:
    return [parse_stream_message(entry.payload) for entry in entries]


def _io(message: StreamMessage) -> IoMessage:
    (reading,) = decode_content(message.content)
    return reading


@pytest.mark.parametrize("route", [BINARY, JSON])
def test_messages_are_signed_chained_and_say_what_was_read(route: Route) -> None:
    wrapper = _wrapper()
    messages = _messages(_wrap(wrapper, route, _readings(3), _clock()) + _wrap(wrapper, route, _readings(2), _clock()))
    verifier, links, previous = Verifier(), ChainVerifier(), None
    for message in messages:
        assert verifier.verify(message) is Verdict.VERIFIED
        assert links.check(_io(message)) is None
        assert message.prev_msg_ref == previous
        previous = message.message_id.ref
    first = _io(messages[0])
    assert (first.info_type, first.info_format, first.priority) == ("temperature", "Cel/cbor", route.priority)
    assert decode_scalar(first.content_data or b"") == 20.5


def test_the_publisher_is_the_element_and_the_tag_its_name() -> None:
    readings = [Reading(name, "temperature", 20.5, taken_at_ms=NOW_MS) for name in ("s", "ß" * 128, "s")]
    first, other, again = map(_io, _messages(_wrap(_wrapper(), BINARY, readings, _clock())))
    assert (first.tag, other.tag) == ("s", "ß" * 128)
    assert first.publisher == again.publisher == element_id(SIGNER.address, "s") != other.publisher


def test_raw_bytes_keep_their_type_and_content() -> None:
    reading = Reading("camera", "picture", b"\xff\xd8jpeg", taken_at_ms=NOW_MS, mime_type="image/jpeg")
    io = _io(_messages(_wrap(_wrapper(), BINARY, [reading], _clock()))[0])
    assert (io.info_format, io.content_data) == ("image/jpeg", b"\xff\xd8jpeg")


def test_a_clock_that_is_set_back_never_turns_a_chain_back() -> None:
    wrapper = _wrapper()
    clocks = [_clock(NOW_MS), *(_clock(NOW_MS - back, is_synchronised=False) for back in (3_600_000, 7_200_000, -5))]
    entries = [entry for clock in clocks for entry in _wrap(wrapper, BINARY, _readings(3), clock)]
    references = [(entry.timestamp_ms, entry.sequence) for entry in entries]
    assert references == sorted(set(references))
    assert all(
        message.prev_msg_ref is None or message.prev_msg_ref < message.message_id.ref for message in _messages(entries)
    )


AHEAD_MS = NOW_MS + 10 * 365 * 86_400_000
EVENTS = BINARY._replace(stream_id="0xab/events", priority=0)


def _reporting(notices: list[ExcursionNotice]) -> Callable[[ExcursionNotice], Group]:
    def report(notice: ExcursionNotice) -> Group:
        notices.append(notice)
        content = notice.to_bytes()
        return Group(EVENTS, [Reading("d", "headgate/x", content, taken_at_ms=1, mime_type="application/cbor")])

    return report


def test_after_an_excursion_into_the_future_new_chains_begin_at_the_present_and_it_is_reported() -> None:
    notices: list[ExcursionNotice] = []
    references = ChainReferences(CeilingInMemory(), None)
    wrapper = Wrapper(SIGNER, references, max_payload_bytes=MAX_PAYLOAD_BYTES, report=_reporting(notices))
    (ahead, *_) = _wrap(wrapper, BINARY, _readings(1), _clock(AHEAD_MS))
    (held,) = _wrap(wrapper, BINARY, _readings(1), _clock(NOW_MS, is_synchronised=False))
    assert held.chain == ahead.chain
    assert (held.timestamp_ms, held.sequence) == (AHEAD_MS, 1), "the clock may be wrong"
    wrapped = Wrapped.nothing()
    wrapper.wrap([Group(BINARY, _readings(2)), Group(JSON, _readings(1))], _clock(NOW_MS), wrapped)
    entries = _entries(wrapped)
    assert {entry.timestamp_ms for entry in entries} == {NOW_MS}
    assert ahead.chain not in {entry.chain for entry in entries}
    (notice,) = notices
    assert notice == ExcursionNotice(
        now_ms=NOW_MS, last=Reference(AHEAD_MS, 1), count=1, chains=((ahead.chain, Reference(AHEAD_MS, 1)),)
    )
    report, first_run = wrapped.runs[0], wrapped.runs[1]
    assert (report.lane, len(report.entries)) == (EVENTS.priority, 1), "the report is committed with the first messages"
    first = _messages(list(first_run.entries))[0]
    assert first.prev_msg_ref is None
    assert _io(first).chain_position == 0


@pytest.mark.parametrize(
    ("refused_ms", "is_back"),
    [(AHEAD_MS, True), (NOW_MS, False), (NOW_MS + 200_000, False), (AHEAD_MS + 1, False), (None, False)],
)
def test_an_unsynchronised_clock_is_trusted_when_a_destination_agrees_with_it(
    refused_ms: int | None, *, is_back: bool
) -> None:
    references = ChainReferences(CeilingInMemory(), None)
    wrapper = Wrapper(SIGNER, references, max_payload_bytes=MAX_PAYLOAD_BYTES)
    _wrap(wrapper, BINARY, _readings(1), _clock(AHEAD_MS, is_synchronised=False))
    if refused_ms is not None:
        references.note_future(refused_ms)
    (entry,) = _wrap(wrapper, BINARY, _readings(1), _clock(NOW_MS, is_synchronised=False))
    assert entry.timestamp_ms == (NOW_MS if is_back else AHEAD_MS)


def test_a_clock_that_was_never_set_is_not_believed() -> None:
    references = ChainReferences(CeilingInMemory(), None)
    wrapper = Wrapper(SIGNER, references, max_payload_bytes=MAX_PAYLOAD_BYTES)
    _wrap(wrapper, BINARY, _readings(1), _clock(NOW_MS))
    references.note_future(NOW_MS)
    (entry,) = _wrap(wrapper, BINARY, _readings(1), _clock(17_000, is_synchronised=False))
    assert (entry.timestamp_ms, entry.sequence) == (NOW_MS, 1)


def test_a_new_process_begins_after_all_that_the_journal_holds() -> None:
    floor = Reference(NOW_MS + 60_000, 3)
    (entry,) = _wrap(_wrapper(floor), BINARY, _readings(1), _clock())
    assert (entry.timestamp_ms, entry.sequence) > floor
    assert _io(_messages([entry])[0]).chain_position == 0


def test_while_the_time_is_not_known_messages_carry_the_counter_of_their_reading() -> None:
    clock = _clock(is_synchronised=False)
    (entry,) = _wrap(_wrapper(), BINARY, _readings(1, taken_at_ms=NOW_MS - 1500), clock)
    context = ClockContext.from_bytes(_io(_messages([entry])[0]).context_data or b"")
    assert context == ClockContext(boot_id=bytes(16), monotonic_ms=88_500, is_synchronised=False)


def test_a_reading_from_before_the_clock_was_set_carries_the_counter_though_the_time_is_known_now() -> None:
    (entry,) = _wrap(_wrapper(), BINARY, _readings(1, taken_at_ms=61_000), _clock())
    context = ClockContext.from_bytes(_io(_messages([entry])[0]).context_data or b"")
    assert context == ClockContext(boot_id=bytes(16), monotonic_ms=90_000, is_synchronised=False)


def test_what_no_message_can_hold_is_refused_and_leaves_no_hole() -> None:
    good = _readings(1)[0]
    too_long = Reading("camera", "picture", bytes(MAX_PAYLOAD_BYTES), taken_at_ms=NOW_MS, mime_type="image/jpeg")
    wrapped = Wrapped.nothing()
    _wrapper().wrap([Group(BINARY, [good, too_long, good])], _clock(), wrapped)
    assert [refused.reading for refused in wrapped.refused] == [too_long]
    assert [_io(message).chain_position for message in _messages(_entries(wrapped))] == [0, 1]


def test_a_source_that_invents_sensors_costs_no_more_than_so_many_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.pack.wrap.MAX_CHAINS", 2)
    wrapper = _wrapper()
    routes = [BINARY._replace(stream_id=f"0xab/{number}") for number in range(3)]
    names = [_wrap(wrapper, routes[number], _readings(2), _clock())[0].chain for number in (0, 1, 0, 2, 0, 1)]
    assert names[0] == names[2] == names[4], "it was used all the time"
    assert names[1] != names[5], "it ended for the third"
    assert len(wrapper._chains) == 2
    [first, second] = _messages(_wrap(wrapper, routes[2], _readings(2), _clock()))
    assert first.prev_msg_ref is None
    assert second.prev_msg_ref is not None


def test_a_token_that_outlives_the_process_travels_with_its_reading() -> None:
    too_long = Reading("camera", "picture", bytes(MAX_PAYLOAD_BYTES), taken_at_ms=NOW_MS, mime_type="image/jpeg")
    readings = [reading._replace(token=token) for token, reading in enumerate([*_readings(1), too_long, *_readings(2)])]
    wrapped = Wrapped.nothing()
    others, high = Group(BINARY, _readings(2)), Group(JSON, [readings[3]], "mcu")
    _wrapper().wrap([others, Group(BINARY, readings[:3], "mcu"), high], _clock(), wrapped)
    assert [(run.lane, run.source, run.tokens) for run in wrapped.runs] == [
        (4, "", [None, None]),
        (4, "mcu", [0, 2]),
        (2, "mcu", [3]),
    ], "what is refused has no entry and leaves no token"
    assert all(len(run.entries) == len(run.tokens) for run in wrapped.runs)


def test_neighbours_of_one_lane_and_source_share_a_run() -> None:
    wrapped, other = Wrapped.nothing(), BINARY._replace(stream_id="0xab/other")
    groups = [Group(BINARY, _readings(2), "mcu"), Group(other, _readings(1), "mcu"), Group(other, _readings(3))]
    _wrapper().wrap(groups, _clock(), wrapped)
    chains = [[entry.chain.partition("#")[0] for entry in run.entries] for run in wrapped.runs]
    assert chains == [[BINARY.stream_id] * 2 + ["0xab/other"], ["0xab/other"] * 3]
    assert [len(run.tokens) for run in wrapped.runs] == [3, 3]


def test_a_disk_that_keeps_no_key_is_asked_again_and_breaks_no_chain() -> None:
    wrapper = _wrapper(encryption=BrokenLock(failures=1))
    routed = [Group(BINARY, _readings(2)), Group(SECRET, _readings(2))]
    wrapped = Wrapped.nothing()
    with pytest.raises(StorageError, match="No space left"):
        wrapper.wrap(routed, _clock(), wrapped)
    assert [group.route for group in routed] == [SECRET]
    wrapper.wrap(routed, _clock(), wrapped)
    assert not routed
    plain, locked = _messages(_entries(wrapped))[:2], _messages(_entries(wrapped))[2:]
    assert [message.prev_msg_ref for message in plain] == [None, plain[0].message_id.ref]
    assert [message.prev_msg_ref for message in locked] == [None, locked[0].message_id.ref]
    assert locked[0].group_key_id == "key"


def test_payloads_are_within_what_was_promised_to_the_journal() -> None:
    for route, growth in ((BINARY, 2), (JSON, 2), (SECRET, 3), (SECRET._replace(content="json"), 3)):
        size = (MAX_PAYLOAD_BYTES - 8192) // growth
        largest = Reading("c", "p", bytes(size), taken_at_ms=NOW_MS, mime_type="image/jpeg")
        (entry,) = _wrap(_wrapper(encryption=BrokenLock(failures=0)), route, [largest], _clock())
        assert len(entry.payload) <= MAX_PAYLOAD_BYTES


@pytest.mark.parametrize("content", ["binary", "json"])
@pytest.mark.parametrize("encryption", ["none", "aes"])
def test_packs_are_within_what_was_promised_to_the_journal(content: ContentForm, encryption: Encryption) -> None:
    route = SECRET._replace(content=content, max_readings=1000, encryption=encryption)
    entries = _wrap(_wrapper(encryption=BrokenLock(failures=0)), route, _readings(1000), _clock())
    assert max(len(entry.payload) for entry in entries) <= MAX_PAYLOAD_BYTES
    assert sum(entry.readings for entry in entries) == 1000


@pytest.mark.parametrize("content", ["binary", "json"])
@pytest.mark.parametrize("max_readings", [2, 3, 250])
@pytest.mark.parametrize("encryption", ["none", "aes"])
def test_readings_that_are_wrapped_together_share_messages(
    content: ContentForm, max_readings: int, encryption: Encryption
) -> None:
    route = SECRET._replace(content=content, max_readings=max_readings, encryption=encryption)
    wrapper = _wrapper(encryption=BrokenLock(failures=0))
    entries = _wrap(wrapper, route, _readings(7), _clock()) + _wrap(wrapper, route, _readings(1), _clock())
    sizes = [min(max_readings, 7 - start) for start in range(0, 7, max_readings)]
    assert [entry.readings for entry in entries] == [*sizes, 1]
    verifier, links, previous = Verifier(), ChainVerifier(), None
    for entry, message in zip(entries, _messages(entries), strict=True):
        assert verifier.verify(message) is Verdict.VERIFIED
        assert (message.prev_msg_ref, message.message_id.ref) == (previous, (entry.timestamp_ms, entry.sequence))
        previous = message.message_id.ref
        readings = decode_content(message.content if encryption == "none" else bytes.fromhex(message.content).decode())
        assert len(readings) == entry.readings
        assert [links.check(each) for each in readings] == [None] * len(readings)


@pytest.mark.parametrize("form", [PACKED, PACKED._replace(content="json")])
def test_one_reading_is_the_same_message_whether_packs_are_on_or_off(form: Route) -> None:
    for route in (form, form._replace(max_readings=1)):
        (message,) = _messages(_wrap(_wrapper(), route, _readings(1), _clock()))
        assert "ioMessages" not in message.content
        assert _io(message).chain_position == 0


@pytest.mark.parametrize("size", [MAX_PACK_BYTES // 4, MAX_PACK_BYTES + 1])
def test_a_pack_stays_within_its_bytes_and_a_larger_reading_stands_alone(size: int) -> None:
    wrapper = Wrapper(SIGNER, ChainReferences(CeilingInMemory(), None), max_payload_bytes=1_000_000)
    large = Reading("c", "p", bytes(size), taken_at_ms=NOW_MS, mime_type="image/jpeg")
    entries = _wrap(wrapper, PACKED, [*_readings(2), large, large, large, large, *_readings(2)], _clock())
    packs = [decode_content(message.content) for message in _messages(entries)]
    assert sum(map(len, packs)) == 8
    assert [each.chain_position for pack in packs for each in pack] == list(range(8))
    assert all(len(pack) == 1 or sum(len(each.to_bytes()) for each in pack) <= MAX_PACK_BYTES for pack in packs)
    assert [len(pack) for pack in packs] == ([2, 1, 1, 1, 1, 2] if size > MAX_PACK_BYTES else [5, 3])


def test_tokens_of_a_pack_are_in_the_order_of_its_readings() -> None:
    readings = [reading._replace(token=token) for token, reading in enumerate(_readings(5))]
    wrapped = Wrapped.nothing()
    _wrapper().wrap([Group(PACKED._replace(max_readings=3), readings, "mcu")], _clock(), wrapped)
    (run,) = wrapped.runs
    assert [entry.readings for entry in run.entries] == [3, 2]
    assert run.tokens == [0, 1, 2, 3, 4]
