"""Laws of the HTTP server's reading of requests."""

from hypothesis import given
from hypothesis import strategies as st

from runtime.http.protocol import HttpProtocol
from tests.fuzz.http_requests import LIMITS, fuzz_one

NAMES = st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=20).map(lambda name: f"x-{name}")
VALUES = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=40)
PATHS = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters="?"), max_size=60)


@given(
    path=PATHS,
    headers=st.dictionaries(NAMES, VALUES, max_size=10),
    body=st.binary(max_size=LIMITS.max_body_bytes),
    trailing=st.binary(max_size=50),
)
def test_a_request_that_is_written_is_read_as_it_was_meant(
    path: str, headers: dict[str, str], body: bytes, trailing: bytes
) -> None:
    lines = [f"POST /{path} HTTP/1.1", "Host: a", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    protocol = HttpProtocol(LIMITS)
    protocol.feed("\r\n".join([*lines, "", ""]).encode() + body + trailing)
    expected = {"host": "a", "content-length": str(len(body)), **headers}
    assert protocol.next_head() == ("POST", f"/{path}", expected)
    received = b""
    while piece := protocol.next_data():
        received += piece
    assert received == body
    assert protocol.take_rest() == trailing


@given(
    st.one_of(
        st.binary(),
        st.lists(st.sampled_from([b"GET / HTTP/1.1", b"\r\n", b"Host: a", b": ", b"Content-Length: 3", b"xyz"])).map(
            b"".join
        ),
    )
)
def test_any_bytes_in_any_pieces_give_the_same(data: bytes) -> None:
    fuzz_one(data)
