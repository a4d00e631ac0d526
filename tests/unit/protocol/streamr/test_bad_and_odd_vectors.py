"""What real releases refuse, and what they accept though it looks odd.

An entry of `bad.json` is refused unless it stands in `READ_ALL_THE_SAME`; an entry of
`accepted_oddities.json` is accepted unless it stands in `REFUSED_ALL_THE_SAME`. Each exception says why. What
no release reads, but a document shows, is read on demand: `DOCUMENT_FORMS`.
"""

from collections.abc import Callable
from typing import Any

import pytest

from protocol.errors import WireError
from protocol.streamr.control import parse_control_message
from protocol.streamr.stream_message import parse_stream_message
from protocol.streamr.tracker import parse_tracker_message
from tests.support.streamr_vectors import load_vectors

BAD = load_vectors("bad")
ODD = load_vectors("accepted_oddities")
PARSERS: dict[str, Callable[..., Any]] = {
    "stream": parse_stream_message,
    "control": parse_control_message,
    "tracker": parse_tracker_message,
}

READ_ALL_THE_SAME = {
    "v31 encryptionType 3 (NEW_KEY_AND_AES)": "releases up to 5.0.0 rotate keys with it",
    'v31 encryptionType "NEW_KEY_AND_AES"': "the document names the types, and release 2.2.15 read the names",
    "v31 prevMsgRef [null,null]": "release 2.2.15 wrote it for messages converted from 28 and 29",
    "v1 SubscribeRequest no partition": "releases up to 4.1.1 took it for partition 0",
    "v1 SubscribeResponse no partition": "releases up to 4.1.1 took it for partition 0",
    "v2 SubscribeRequest no partition": "the documents: optional, defaults to 0",
    "v2 SubscribeRequest null partition": "the documents: optional, defaults to 0",
    "v2 SubscribeResponse no partition": "the documents: optional, defaults to 0",
    "v2 Status": "version 2 of the tracker layer came after the release that judged it",
    "seed 002 example [2,15,...]": "the document's own numbering; nothing else looks like it",
    "seed 002 example [2,16,...]": "the document's own numbering; nothing else looks like it",
}
REFUSED_ALL_THE_SAME = {
    "prevMsgRef [ts] only": "its signature would cover the word undefined",
    "v31 seqNo null in prev": "its signature would cover the word null",
}
DOCUMENT_FORMS = {
    "v32 seed-000 example layout, 9 fields (no groupKeyId)",
    "v2 SubscribeRequest without requestId (v1 layout, as in seed WrapperMessage example)",
    "v2 ResendLast requestId empty",
    "v2 Unicast empty requestId",
    "v0 resending without sub (seed 003)",
    'v0 unicast "" subId',
    "v1 Status without requestId (seed 002 layout)",
}


def named(entry: dict[str, Any]) -> str:
    return f"{entry['layer']}: {entry['note']}"


def test_every_vector_is_here_and_every_exception_is_about_one() -> None:
    assert (len(BAD), len(ODD)) == (93, 52)
    assert set(READ_ALL_THE_SAME) | DOCUMENT_FORMS <= {entry["note"] for entry in BAD}
    assert set(REFUSED_ALL_THE_SAME) <= {entry["note"] for entry in ODD}
    assert not set(READ_ALL_THE_SAME) & DOCUMENT_FORMS


@pytest.mark.parametrize("entry", [e for e in BAD if e["note"] not in READ_ALL_THE_SAME], ids=named)
def test_what_real_releases_refuse_is_refused(entry: dict[str, Any]) -> None:
    with pytest.raises(WireError):
        PARSERS[entry["layer"]](entry["serialized"])


@pytest.mark.parametrize("entry", [e for e in BAD if e["note"] in READ_ALL_THE_SAME], ids=named)
def test_what_some_real_peer_writes_is_read_all_the_same(entry: dict[str, Any]) -> None:
    assert PARSERS[entry["layer"]](entry["serialized"]).serialize()


@pytest.mark.parametrize("entry", [e for e in BAD if e["note"] in DOCUMENT_FORMS], ids=named)
def test_what_only_a_document_shows_is_read_on_demand(entry: dict[str, Any]) -> None:
    mode = {"draft": True} if entry["layer"] == "stream" else {"documents": True}
    assert PARSERS[entry["layer"]](entry["serialized"], **mode)


@pytest.mark.parametrize("entry", [e for e in BAD if e["note"] not in {*READ_ALL_THE_SAME, *DOCUMENT_FORMS}], ids=named)
def test_what_not_even_a_document_shows_is_refused_even_on_demand(entry: dict[str, Any]) -> None:
    mode = {"draft": True} if entry["layer"] == "stream" else {"documents": True}
    with pytest.raises(WireError):
        PARSERS[entry["layer"]](entry["serialized"], **mode)


@pytest.mark.parametrize("entry", [e for e in ODD if e["note"] not in REFUSED_ALL_THE_SAME], ids=named)
def test_what_looks_odd_but_is_accepted_is_accepted(entry: dict[str, Any]) -> None:
    assert PARSERS[entry["layer"]](entry["serialized"])


@pytest.mark.parametrize("entry", [e for e in ODD if e["note"] in REFUSED_ALL_THE_SAME], ids=named)
def test_what_would_make_signatures_ambiguous_is_refused(entry: dict[str, Any]) -> None:
    with pytest.raises(WireError):
        PARSERS[entry["layer"]](entry["serialized"])
