"""Who may log in, make streams and look."""

import pytest

from node.access.policy import Access, Audience, StreamCreation
from node.errors import ErrorCode, Refused
from tests.support.node_samples import ALICE, BOB


def test_by_default_every_address_makes_streams_under_itself() -> None:
    access = Access()
    access.check_login(BOB.address)
    access.check_creation(f"{ALICE.address}/a", ALICE.address)
    access.check_creation(f"0x{ALICE.address[2:].upper()}/a", ALICE.address)
    for stream_id in (f"{BOB.address}/a", "a", ""):
        with pytest.raises(Refused) as refused:
            access.check_creation(stream_id, ALICE.address)
        assert refused.value.code is ErrorCode.PERMISSION_DENIED


def test_creating_a_stream_needs_a_login() -> None:
    for creation in StreamCreation:
        with pytest.raises(Refused) as refused:
            Access(stream_creation=creation).check_creation("a", "")
        assert refused.value.code is ErrorCode.AUTHENTICATION_FAILED


def test_a_node_may_be_closed_or_open() -> None:
    Access(stream_creation=StreamCreation.ANY_ID).check_creation("a", ALICE.address)
    with pytest.raises(Refused):
        Access(stream_creation=StreamCreation.CLOSED).check_creation(f"{ALICE.address}/a", ALICE.address)


def test_logging_in_may_be_for_some_only() -> None:
    access = Access(addresses=frozenset({ALICE.address}))
    access.check_login(f"0x{ALICE.address[2:].upper()}")
    with pytest.raises(Refused):
        access.check_login(BOB.address)


def test_the_status_is_for_this_machine_by_default() -> None:
    for peer in ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"):
        Access().check_status(peer)
    for peer in ("192.168.1.5", "2001:db8::1", "::ffff:10.0.0.1", "", "local"):
        Access(status=Audience.PUBLIC).check_status(peer)
        with pytest.raises(Refused):
            Access().check_status(peer)
