"""A pack is read whole, or the reason names the reading that is invalid."""

from typing import Any

import orjson
import pytest

from ingest.decoded import ChainLink
from ingest.readings import join_links, read_content, read_nothing
from ingest.reasons import Quarantined, Reason
from protocol.iomessage import EMPTY_CHAIN, IoMessage, hash_link
from protocol.iomessage.content import MAX_PACK_READINGS, encode_binary_content, encode_json_content
from protocol.scalars import encode_scalar
from tests.support.iomessage_samples import message

AT_MS = 1_790_000_000_000


def linked(count: int) -> list[IoMessage]:
    head, found = EMPTY_CHAIN, []
    for number in range(count):
        io = message(id=f"id-{number}", timestamp=AT_MS + number, content_data=encode_scalar(number + 0.5))
        found.append(hash_link(io, head))
        head = type(head).of(found[-1])
    return found


LINKED = linked(5)
UNLINKED = [message(id=f"id-{number}", timestamp=AT_MS) for number in range(3)]


def as_binary(messages: list[IoMessage]) -> str:
    return encode_binary_content([each.to_bytes() for each in messages])


def as_json(messages: list[IoMessage]) -> str:
    return encode_json_content([each.to_json() for each in messages])


def problem(content: str) -> tuple[Reason, str]:
    with pytest.raises(Quarantined) as rejected:
        read_content(content, AT_MS)
    return rejected.value.reason, rejected.value.detail


@pytest.mark.parametrize("encode", [as_binary, as_json])
@pytest.mark.parametrize("messages", [LINKED, LINKED[:1], UNLINKED, UNLINKED[:1]])
def test_a_valid_pack_is_read_in_both_embodiments(encode: Any, messages: list[IoMessage]) -> None:
    readings = read_content(encode(messages), AT_MS)
    assert [reading.columns[0] for reading in readings] == [each.id for each in messages]
    last = messages[-1]
    expected = None if last.hash is None else ChainLink(0, len(messages) - 1, last.hash, None)
    assert join_links(readings) == expected


@pytest.mark.parametrize("encode", [as_binary, as_json])
@pytest.mark.parametrize(
    ("messages", "reason", "detail"),
    [
        ([*LINKED[:2], LINKED[2].replace(hash="00" * 32), *LINKED[3:]], Reason.HASH_MISMATCH, "reading 2 of 5: its"),
        ([*LINKED[:2], LINKED[2].replace(info_type="other"), LINKED[3]], Reason.HASH_MISMATCH, "reading 2 of 4: its"),
        ([LINKED[0], LINKED[2]], Reason.LINK_BROKEN, "reading 1 of 2: its chain position is 2, after 0"),
        ([LINKED[1], LINKED[0]], Reason.LINK_BROKEN, "reading 1 of 2: its chain position is 0, after 1"),
        ([LINKED[0], LINKED[0]], Reason.LINK_BROKEN, "reading 1 of 2: its chain position is 0, after 0"),
        (
            [*LINKED[:2], hash_link(UNLINKED[0], type(EMPTY_CHAIN)(1, "ab" * 32))],
            Reason.LINK_BROKEN,
            "its previous hash",
        ),
        ([LINKED[0], UNLINKED[0]], Reason.LINK_BROKEN, "reading 1 of 2: of it and the reading before, only one"),
        ([UNLINKED[0], LINKED[0]], Reason.LINK_BROKEN, "reading 1 of 2: of it and the reading before, only one"),
        ([UNLINKED[0], UNLINKED[1].replace(content_data=b"\xff")], Reason.CONTENT_UNREADABLE, "reading 1 of 2: not a"),
        ([UNLINKED[0], UNLINKED[1].replace(timestamp=1)], Reason.TIME_OUT_OF_RANGE, "reading 1 of 2: made at 1 ms"),
        ([LINKED[2].replace(hash="00" * 32)], Reason.HASH_MISMATCH, "its content does not hash to"),
    ],
)
def test_an_invalid_reading_costs_the_whole_pack_and_is_named(
    encode: Any, messages: list[IoMessage], reason: Reason, detail: str
) -> None:
    found, text = problem(encode(messages))
    assert found is reason
    assert detail in text
    assert text.startswith("reading") == (len(messages) > 1)


TINY = bytes.fromhex("0004") + bytes(31)  # the shortest message there is


@pytest.mark.parametrize(
    ("content", "detail"),
    [
        ('{"ioMessages":""}', "the header is 33 bytes long"),
        ('{"ioMessages":[]}', "a pack of 0 readings"),
        ('{"ioMessages":{}}', "neither JSON nor base64"),
        ('{"ioMessages":[[[[{}]]]]}', "reading 0 of the pack: an ioMessage in JSON is an object"),
        (encode_json_content(["[" * 100_000, "]" * 100_000]), "neither JSON nor base64"),
        ('{"ioMessage":"AA==","ioMessages":"AA=="}', "both ioMessage and ioMessages"),
        (encode_binary_content([LINKED[0].to_bytes(), b"x"]), "the header is 33 bytes long"),
        (encode_binary_content([LINKED[0].to_bytes(), LINKED[1].to_bytes()[:-1]]), "ends 1 bytes behind it"),
        (encode_binary_content([TINY] * (MAX_PACK_READINGS + 1)), f"more than {MAX_PACK_READINGS} readings"),
        (encode_binary_content([TINY] * 1_000_000), "the limit is 65536"),
        (encode_json_content(["{}"] * 1_000_000), "a pack of 1000000 readings"),
    ],
    ids=range(11),
)
def test_a_pack_that_is_none_is_unreadable(content: str, detail: str) -> None:
    reason, text = problem(content)
    assert reason is Reason.CONTENT_UNREADABLE
    assert detail in text


def test_a_number_or_a_text_that_no_column_holds_is_refused() -> None:
    document = orjson.loads(LINKED[0].to_json())
    content = orjson.dumps({**document, "hash": ""}).decode().replace('"id-0"', '"half \\ud800"')
    assert problem(content)[0] in (Reason.NOT_A_MESSAGE, Reason.CONTENT_UNREADABLE)


def test_what_is_not_read_has_the_time_of_its_message() -> None:
    columns = read_nothing(AT_MS).columns
    assert columns[-1] == AT_MS * 1000
    assert set(columns[:-4]) == {None}
    with pytest.raises(Quarantined):
        read_nothing(1)
