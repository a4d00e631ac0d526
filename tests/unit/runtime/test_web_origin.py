"""Names and origins that a web server answers to."""

import pytest

from runtime.web_origin import ANY_ORIGIN, KnownHosts, Origins, is_loopback_host, is_origin, own_hosts

OWN = KnownHosts(names=own_hosts("127.0.0.1", ["Plant.example"]))


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:7080", "LOCALHOST", "localhost.", "127.0.0.1:1", "[::1]", "[::1]:7080", "plant.example"],
)
def test_an_own_name_is_known(host: str) -> None:
    assert OWN.knows(host)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example:7080",
        "localhost:1:2",
        "@localhost",
        "evil@localhost",
        "[::1",
        "0x7f.1",
        "10.0.0.1",
    ],
)
def test_a_name_that_someone_points_here_is_not_known(host: str) -> None:
    assert not OWN.knows(host)


def test_a_numeric_address_can_be_accepted_because_it_cannot_point_elsewhere() -> None:
    hosts = KnownHosts(names=own_hosts("0.0.0.0"), accepts_addresses=True)

    assert hosts.knows("10.0.0.1:7070")
    assert hosts.knows("[fd00::1]:7070")
    assert not hosts.knows("10.0.0.1.evil.example")


@pytest.mark.parametrize(
    ("origin", "host", "is_allowed"),
    [
        (None, "evil.example", True),  # no browser
        ("http://localhost:7070", "localhost:7070", True),
        ("http://localhost", "localhost:80", True),
        ("https://app.example", "localhost:7070", True),
        ("HTTPS://App.example", "localhost:7070", True),
        ("https://app.example:444", "localhost:7070", False),
        ("https://evil.example", "localhost:7070", False),
        ("http://evil.example:7070", "evil.example:7070", False),  # its own name, pointed here
        ("http://localhost:8080", "localhost:7070", False),  # another server of this machine
        ("null", "localhost:7070", False),  # a sandboxed page, a file
        ("", "localhost:7070", False),
        ("http://localhost:7070@evil.example", "localhost:7070", False),
    ],
)
def test_pages_of_other_sites_are_refused_unless_they_are_allowed(
    origin: str | None, host: str, *, is_allowed: bool
) -> None:
    assert Origins(hosts=OWN, allowed=frozenset({"https://app.example"})).allows(origin, host) is is_allowed


def test_any_origin_can_be_allowed() -> None:
    assert Origins(hosts=OWN, allowed=frozenset({ANY_ORIGIN})).allows("null", "evil.example")


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [("127.0.0.1", True), ("127.1.2.3", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False)],
)
def test_addresses_of_this_machine_alone(host: str, *, is_loopback: bool) -> None:
    assert is_loopback_host(host) is is_loopback


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("*", True), ("https://app.example", True), ("http://h:1", True), ("app.example", False), ("http://h/x", False)],
)
def test_settings_that_name_an_origin(text: str, *, is_one: bool) -> None:
    assert is_origin(text) is is_one
