"""The challenges of real nodes are known, and no other text is taken for one."""

import json
from pathlib import Path

import pytest

from protocol.ethereum import address_of, default_backend, eip191_digest
from protocol.ethereum.login_challenge import TOKEN_CHARACTERS, challenge_text, is_challenge

VECTORS = Path(__file__).parents[3] / "vectors" / "streamr" / "login_challenges.json"
ADDRESS = "0x880486b86b86a430813e1a884ebb0641bf5c3514"
TOKEN = "6AyCyyvQFjtk4fUQyFcIrurHmh13YZ"
GOOD = challenge_text(ADDRESS, TOKEN)
WITHOUT_ADDRESS = GOOD.replace(f" for address {ADDRESS}", "")


def test_what_the_real_service_sent_is_a_challenge_for_the_address_that_answered() -> None:
    real = json.loads(VECTORS.read_text())["challenges"]
    assert len(real) == 3
    for each in real:
        signer = default_backend().recover(
            eip191_digest(each["challenge"].encode()), bytes.fromhex(each["signature"][2:])
        )
        assert signer is not None
        assert address_of(signer) == each["address"]
        assert is_challenge(each["challenge"], each["address"])
        assert challenge_text(each["address"], each["challenge"][-TOKEN_CHARACTERS:]) == each["challenge"]


def test_the_form_before_it_is_a_challenge_too() -> None:
    assert WITHOUT_ADDRESS != GOOD
    assert is_challenge(WITHOUT_ADDRESS, ADDRESS)
    assert is_challenge(GOOD, ADDRESS.upper().replace("0X", "0x"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        TOKEN,
        GOOD[:-1],
        GOOD + "a",
        " " + GOOD,
        GOOD.replace("\n\n", "\n"),
        GOOD.replace(TOKEN, TOKEN[:-1] + "\n"),
        GOOD.replace(TOKEN, TOKEN[:-1] + "é"),
        GOOD.replace(TOKEN, TOKEN[:-1] + "_"),
        GOOD.replace(TOKEN, "٣" * TOKEN_CHARACTERS),
        GOOD.replace(ADDRESS, "0x" + "1" * 40),
        GOOD.replace(ADDRESS, ADDRESS.upper()),
        GOOD.replace("Streamr", "Streamer"),
        WITHOUT_ADDRESS + f"01700000000000{ADDRESS}chain{{}}",
    ],
)
def test_no_other_text_is_a_challenge(text: str) -> None:
    assert not is_challenge(text, ADDRESS)


@pytest.mark.parametrize("token", ["", "a", "a" * 29, "a" * 31, "-" * 30])
def test_a_token_of_another_form_makes_no_challenge(token: str) -> None:
    with pytest.raises(ValueError, match="30 letters and digits"):
        challenge_text(ADDRESS, token)
