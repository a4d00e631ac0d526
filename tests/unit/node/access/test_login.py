"""Logging in."""

import pytest

from node.access.login import CHALLENGE_LIFE_MS, MAX_CHALLENGES, SESSION_LIFE_MS, Sessions, digest_of
from node.errors import ErrorCode, Refused
from tests.support.node_samples import ALICE, BOB
from tests.support.wallets import personal_sign


class Clock:
    now_ms = 1_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(clock: Clock) -> Sessions:
    return Sessions(clock)


def test_the_holder_of_the_key_gets_a_session(sessions: Sessions) -> None:
    challenge = sessions.challenge(ALICE.address.upper().replace("0X", "0x"))
    session = sessions.respond(challenge.id, personal_sign(ALICE, challenge.text), ALICE.address)

    assert sessions.user_of(session.token) == ALICE.address


def test_a_challenge_is_used_up_by_one_answer_right_or_wrong(sessions: Sessions) -> None:
    challenge = sessions.challenge(ALICE.address)
    refuse(sessions, challenge.id, personal_sign(BOB, challenge.text), ALICE.address)
    refuse(sessions, challenge.id, personal_sign(ALICE, challenge.text), ALICE.address)


@pytest.mark.parametrize("signature", ["", "0x", "0x12", "zz" * 65, "0x" + "00" * 65, "0x" + "ff" * 65])
def test_what_is_no_signature_is_refused(sessions: Sessions, signature: str) -> None:
    refuse(sessions, sessions.challenge(ALICE.address).id, signature, ALICE.address)


def test_a_challenge_made_for_one_address_does_not_serve_another(sessions: Sessions) -> None:
    challenge = sessions.challenge(ALICE.address)
    refuse(sessions, challenge.id, personal_sign(BOB, challenge.text), BOB.address)


def test_challenges_and_sessions_expire(sessions: Sessions, clock: Clock) -> None:
    late = sessions.challenge(ALICE.address)
    session = sessions.open(ALICE.address)
    clock.now_ms += CHALLENGE_LIFE_MS
    refuse(sessions, late.id, personal_sign(ALICE, late.text), ALICE.address)
    clock.now_ms += SESSION_LIFE_MS
    with pytest.raises(Refused):
        sessions.user_of(session.token)
    sessions.drop_expired()
    assert len(sessions) == 0


def test_a_closed_session_is_over(sessions: Sessions) -> None:
    token = sessions.open(ALICE.address).token
    sessions.close(token)
    with pytest.raises(Refused) as refused:
        sessions.user_of(token)
    assert refused.value.code is ErrorCode.AUTHENTICATION_FAILED


def test_however_many_challenges_are_asked_for_only_so_many_are_kept(sessions: Sessions) -> None:
    first = sessions.challenge(ALICE.address)
    for _ in range(MAX_CHALLENGES):
        sessions.challenge(BOB.address)
    refuse(sessions, first.id, personal_sign(ALICE, first.text), ALICE.address)


def test_an_old_client_is_known_by_its_key(clock: Clock) -> None:
    sessions = Sessions(clock, {digest_of("the key"): ALICE.address})

    assert sessions.user_of_api_key("the key") == ALICE.address
    with pytest.raises(Refused, match="the API key is unknown"):
        sessions.user_of_api_key("another")


def refuse(sessions: Sessions, challenge_id: str, signature: str, address: str) -> None:
    with pytest.raises(Refused) as refused:
        sessions.respond(challenge_id, signature, address)
    assert refused.value.code is ErrorCode.AUTHENTICATION_FAILED
