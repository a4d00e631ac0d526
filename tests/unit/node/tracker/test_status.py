import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.streams import StreamPart
from node.tracker.status import MAX_LINKS, MAX_PARTS, NodeStatus, PartStatus, read_status, write_status
from protocol.errors import Corrupt

PART = StreamPart("stream", 3)
LINKED = PartStatus(linked=frozenset({"a", "b"}), counter=5)
LINKS = {"inboundNodes": ["a"], "outboundNodes": ["a", "b"], "counter": 5}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"streams": {"stream::3": LINKS}}, NodeStatus(parts={PART: LINKED}, is_complete=True)),
        ({"streams": {"stream::3": LINKS}, "singleStream": True}, NodeStatus(parts={PART: LINKED})),
        ({"stream": {"streamKey": "stream::3", **LINKS}}, NodeStatus(parts={PART: LINKED})),
        (
            {"streamPart": {"id": "stream", "partition": 3, "neighbors": ["a", "b"], "counter": 5}},
            NodeStatus(parts={PART: LINKED}, requires_acknowledgement=True),
        ),
        ({"streams": {"stream::3": {}}}, NodeStatus(parts={PART: PartStatus()}, is_complete=True)),
        ({"streams": [], "started": 0, "rtts": {}}, NodeStatus(is_complete=True)),
        ("status", NodeStatus()),
        ({"something": "else"}, NodeStatus()),
    ],
)
def test_the_status_of_every_release_is_read(status: Any, expected: NodeStatus) -> None:
    assert read_status(status) == expected


def test_a_stream_id_may_hold_the_separator() -> None:
    assert list(read_status({"streams": {"a::b::7": {}}}).parts) == [StreamPart("a::b", 7)]


@pytest.mark.parametrize(
    "status",
    [
        {"streams": {"stream": {}}},
        {"streams": {"stream::x": {}}},
        {"streams": {"stream::-1": {}}},
        {"streams": {"::0": {}}},
        {"streams": {"x" * 513 + "::0": {}}},
        {"streams": {"s::" + "9" * 5000: {}}},
        {"streams": {"s::0": []}},
        {"streams": {"s::0": {"inboundNodes": "a"}}},
        {"streams": {"s::0": {"inboundNodes": [1]}}},
        {"streams": {"s::0": {"inboundNodes": ["x" * 513]}}},
        {"streams": {"s::0": {"inboundNodes": ["a"] * (MAX_LINKS + 1)}}},
        {"streams": {"s::0": {"counter": "1"}}},
        {"streams": {"s::0": {"counter": -2}}},
        {"streams": {"s::0": {"counter": True}}},
        {"streams": {f"s::{number}": {} for number in range(MAX_PARTS + 1)}},
        {"streamPart": {"id": "s", "partition": "0"}},
        {"streamPart": {"id": "s", "partition": -1}},
    ],
)
def test_a_status_that_breaks_its_form_is_refused(status: Any) -> None:
    with pytest.raises(Corrupt):
        read_status(status)


@given(
    st.dictionaries(
        st.builds(StreamPart, st.text("a:é/", min_size=1, max_size=9), st.integers(0, 99)),
        st.builds(
            PartStatus, linked=st.frozensets(st.text("abc", max_size=9), max_size=4), counter=st.integers(0, 2**53 - 1)
        ),
        max_size=5,
    )
)
def test_what_is_written_is_read_as_it_was(parts: dict[StreamPart, PartStatus]) -> None:
    assert read_status(write_status(parts)) == NodeStatus(parts=parts, is_complete=True)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["streams", "stream", "streamPart", "id", "partition", "streamKey", "counter", "neighbors", "s::0"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(JSON)
def test_any_json_gives_a_status_or_corrupt(status: Any) -> None:
    with contextlib.suppress(Corrupt):
        read_status(status)
