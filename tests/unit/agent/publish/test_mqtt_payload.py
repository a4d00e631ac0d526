import base64
import itertools
import json
from collections.abc import Callable, Sequence

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.journal import Record
from agent.pack.wrap import chain_name
from agent.publish.contract import RejectedRun, run_of
from agent.publish.mqtt_payload import (
    PACKET_OVERHEAD_BYTES,
    PayloadForm,
    Publication,
    check_topic_template,
    pack,
)
from protocol.iomessage import IoMessage
from protocol.streamr.ids import MessageID
from protocol.streamr.stream_message import EncryptionType, StreamMessage
from tests.support.pack_samples import binary_content, json_content, linked_readings
from tests.support.publish_records import record

MAX_BYTES = 1_000_000


def message(number: int, *, stream: str = "site/boiler", content: str = '{"n":1}', encrypted: bool = False) -> Record:
    sent = StreamMessage(
        MessageID(stream, 2, 1_000 + number, 0, "0xab", "chain"),
        content,
        encryption_type=EncryptionType.AES if encrypted else EncryptionType.NONE,
        group_key_id="key" if encrypted else None,
    )
    return record(number, payload=sent.serialize().encode())


def packed(
    records: list[Record], template: str = "{stream}", form: PayloadForm = "stream_message", max_bytes: int = MAX_BYTES
) -> list[Publication | RejectedRun]:
    return list(pack(records, template, form, max_messages=3, max_bytes=max_bytes))


def test_one_message_is_sent_byte_for_byte() -> None:
    only = message(1)
    assert packed([only]) == [Publication("site/boiler", only.payload, [only])]


def test_neighbours_share_a_publication_in_order() -> None:
    records = [message(number) for number in range(5)]
    first, second = packed(records)
    assert isinstance(first, Publication)
    assert isinstance(second, Publication)
    assert (first.records, second.records) == (records[:3], records[3:])
    assert orjson.loads(first.payload) == [orjson.loads(each.payload) for each in records[:3]]


def test_another_topic_begins_another_publication() -> None:
    records = [message(0), message(1, stream="other"), message(2)]
    topics = [each.topic for each in packed(records) if isinstance(each, Publication)]
    assert topics == ["site/boiler", "other", "site/boiler"]


def test_another_lane_begins_another_publication() -> None:
    """What is acknowledged at once is a run, and a run is of one lane."""
    records = [message(0), message(1), message(0)._replace(lane=3)]
    publications = [each for each in packed(records, "all") if isinstance(each, Publication)]
    assert [each.records for each in publications] == [records[:2], records[2:]]


def test_chains_with_the_same_topic_share_a_publication() -> None:
    records = [message(0)._replace(chain="one"), message(1)._replace(chain="other")]
    (publication,) = packed(records)
    assert isinstance(publication, Publication)
    assert publication.records == records


def test_what_is_known_of_a_chain_is_not_looked_for_again() -> None:
    named = chain_name("site/boiler", 2, "chain")
    first, second = message(0)._replace(chain=named), record(1, chain=named, payload=b"no message")
    assert [type(each) for each in packed([first]) + packed([second])] == [Publication, Publication]


@given(
    sizes=st.lists(st.one_of(st.integers(1, 300), st.integers(1, 3_000)), min_size=1, max_size=40),
    max_messages=st.integers(1, 6),
    max_bytes=st.integers(300, 4_000),
)
@example(sizes=[1, 1, 1], max_messages=3, max_bytes=302)  # one byte short of three
def test_packets_are_as_full_as_they_may_be_and_hold_everything_in_order(
    sizes: list[int], max_messages: int, max_bytes: int
) -> None:
    records = [message(number, content="x" * size) for number, size in enumerate(sizes)]
    outcomes = list(pack(records, "t", "stream_message", max_messages=max_messages, max_bytes=max_bytes))
    positions: list[int] = []
    for each in outcomes:
        lane, first, last = run_of(each.records) if isinstance(each, Publication) else each[:3]
        positions += range(first, last + 1)
        assert lane == 0
    assert positions == list(range(len(records)))
    for each in outcomes:
        if isinstance(each, Publication):
            assert len(each.payload) + PACKET_OVERHEAD_BYTES <= max_bytes
            assert len(each.records) <= max_messages
        else:
            assert len(records[each.first].payload) + PACKET_OVERHEAD_BYTES + 4 > max_bytes
    for before, after in itertools.pairwise(outcomes):
        if isinstance(before, Publication) and isinstance(after, Publication) and len(before.records) < max_messages:
            assert len(before.payload) + len(after.records[0].payload) + PACKET_OVERHEAD_BYTES + 7 > max_bytes


def test_the_template_names_the_topic() -> None:
    (publication,) = packed([message(0)], "hg/{publisher}/{partition}/{chain}")
    assert isinstance(publication, Publication)
    assert publication.topic == "hg/0xab/2/chain"


def test_what_the_broker_would_not_take_is_refused_alone() -> None:
    """And in its place: what is sent together is a run, of which nothing else is part."""
    records = [message(0), message(1, content=json.dumps("x" * 2_000)), message(2)]
    first, second, third = packed(records, max_bytes=1_000)
    assert isinstance(first, Publication)
    assert isinstance(second, RejectedRun)
    assert isinstance(third, Publication)
    assert second[:3] == (0, 1, 1)
    assert "broker's limit of 1000" in second.reason
    assert (first.records, third.records) == ([records[0]], [records[2]])


@pytest.mark.parametrize(
    "payload", [b"", b"{", b"[]", b"[32]", b'[32,["s"]]', b"[32,5,7]", b'[32,["a#",0,1,0,"p","c"]]']
)
def test_what_is_no_message_is_refused(payload: bytes) -> None:
    (refused,) = packed([record(0, payload=payload)])
    assert isinstance(refused, RejectedRun)


def test_an_io_message_goes_out_in_its_own_form_and_alone() -> None:
    binary = json.dumps({"ioMessage": base64.b64encode(b"\x00\x04binary").decode()})
    publications = packed([message(0, content=binary), message(1, content='{"ID":"x"}')], form="io_message")
    assert [each.payload for each in publications if isinstance(each, Publication)] == [
        b"\x00\x04binary",
        b'{"ID":"x"}',
    ]


@pytest.mark.parametrize("encode", [binary_content, json_content])
def test_a_pack_goes_out_as_one_io_message_per_reading(encode: Callable[[Sequence[IoMessage]], str]) -> None:
    readings = linked_readings(3)
    packs = [message(0, content=encode(readings)), message(3, content=encode(readings[:1]))]
    publications = [each for each in packed(packs, form="io_message") if isinstance(each, Publication)]
    written = [each.to_bytes() if encode is binary_content else each.to_json().encode() for each in readings]
    assert [each.payload for each in publications] == [*written, written[0]]
    assert [(each.part, each.parts) for each in publications] == [(0, 3), (1, 3), (2, 3), (0, 1)]
    assert [each.records for each in publications] == [[packs[0]]] * 3 + [[packs[1]]]


def test_a_pack_is_one_stream_message() -> None:
    only = message(0, content=binary_content(linked_readings(3)))
    assert packed([only]) == [Publication("site/boiler", only.payload, [only])]


def test_a_pack_with_a_reading_that_is_too_large_is_refused_as_a_whole() -> None:
    readings = linked_readings(3)
    large = readings[1]._replace(content_data=bytes(2_000))
    content = binary_content([readings[0], IoMessage._make(large), readings[2]])
    (refused,) = packed([message(0, content=content)], form="io_message", max_bytes=1_500)
    assert isinstance(refused, RejectedRun)
    assert "broker's limit of 1500" in refused.reason


@pytest.mark.parametrize("content", ['{"ioMessages":"AAAA"}', '{"ioMessages":[1]}', '{"ioMessages":[]}'])
def test_a_pack_that_cannot_be_decoded_is_refused(content: str) -> None:
    (refused,) = packed([message(0, content=content)], form="io_message")
    assert isinstance(refused, RejectedRun)


def test_an_encrypted_message_has_no_io_message_to_show() -> None:
    (refused,) = packed([message(0, content="ab" * 20, encrypted=True)], form="io_message")
    assert isinstance(refused, RejectedRun)
    assert "encrypted" in refused.reason


@pytest.mark.parametrize("template", ["", "a/+/b", "a/#", "{nothing}", "{", "{0}"])
def test_a_template_that_makes_no_topic_is_refused(template: str) -> None:
    with pytest.raises(ValueError, match="topic"):
        check_topic_template(template)
