"""Whatever a client sends, the node answers and goes on."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.node_requests import SEEDS, fuzz_one

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)


@given(st.binary(max_size=200))
@settings(deadline=None)
def test_any_bytes_are_answered(data: bytes) -> None:
    fuzz_one(data)


@st.composite
def damaged_requests(draw: st.DrawFn) -> bytes:
    """A good request with one of its parts replaced by any JSON."""
    request: Any = json.loads(draw(st.sampled_from(SEEDS)))
    place = draw(st.sampled_from(list(request) if isinstance(request, dict) else list(range(len(request)))))
    if isinstance(request[place], list) and request[place] and draw(st.booleans()):
        request[place][draw(st.integers(0, len(request[place]) - 1))] = draw(JSON)
    else:
        request[place] = draw(JSON)
    return json.dumps(request).encode()


@given(damaged_requests())
@settings(deadline=None)
def test_any_damaged_request_is_answered(data: bytes) -> None:
    fuzz_one(data)
