"""The checks of `Host` and `Origin`."""

import pytest

from node.access.policy import Access, Audience
from node.access.web_guard import WebGuard
from node.errors import Refused
from node.http import Request


def request(host: str, **headers: str) -> Request:
    return Request(method="GET", path="/", headers={"host": host, **headers})


def test_a_node_in_the_network_answers_to_any_name_but_shows_its_status_by_a_known_one() -> None:
    guard = WebGuard(Access(), "0.0.0.0")
    guard.check(request("node.lan:7070"))
    for host in ("localhost:7070", "10.0.0.7:7070"):
        guard.check_status(request(host))

    with pytest.raises(Refused, match=r"access\.hosts"):
        guard.check_status(request("evil.example:7070"))
    with pytest.raises(Refused, match=r"access\.origins"):
        guard.check(request("evil.example", origin="http://evil.example"))


def test_a_node_with_names_answers_to_these_and_to_numbers() -> None:
    guard = WebGuard(Access(hosts=frozenset({"node.lan"})), "0.0.0.0")
    for host in ("node.lan", "NODE.lan:7070", "10.0.0.7", "[fd00::7]:7070", "localhost"):
        guard.check(request(host))
    guard.check(request("node.lan:7070", origin="http://node.lan:7070"))

    with pytest.raises(Refused, match=r"evil\.example"):
        guard.check(request("evil.example"))


def test_a_status_that_is_for_everybody_goes_by_any_name() -> None:
    WebGuard(Access(status=Audience.PUBLIC), "0.0.0.0").check_status(request("monitor.lan"))
