import pytest

from agent.publish.node_url import NodeUrl


@pytest.mark.parametrize(
    ("text", "shown", "websocket"),
    [
        ("127.0.0.1:7070", "http://127.0.0.1:7070", "ws://127.0.0.1:7070/api/v1/ws?"),
        ("http://node.example/api/v1", "http://node.example:80", "ws://node.example:80/api/v1/ws?"),
        ("wss://node.example/api/v1/ws", "https://node.example:443", "wss://node.example:443/api/v1/ws?"),
        ("https://[::1]:8443/", "https://[::1]:8443", "wss://[::1]:8443/api/v1/ws?"),
    ],
)
def test_one_url_gives_both_interfaces(text: str, shown: str, websocket: str) -> None:
    url = NodeUrl.parse(text)
    assert str(url) == shown
    assert url.websocket.startswith(websocket)


@pytest.mark.parametrize(
    "text", ["", "ftp://host", "http://", "http://user:pass@host", "http://host/else", "http://host?a=b", "host:port"]
)
def test_what_is_no_node_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - also the words of the library
        NodeUrl.parse(text)


def test_without_tls_there_is_nothing_to_check() -> None:
    assert NodeUrl.parse("http://host").tls_context(None) is None
    assert NodeUrl.parse("https://host").tls_context(None) is not None
