import copy
import pickle

import pytest

from agent.keys import Secret

HIDDEN = Secret(b"do not show me")


def test_it_shows_its_length_and_nothing_else() -> None:
    assert repr(HIDDEN) == str(HIDDEN) == f"{HIDDEN}" == "Secret(14 bytes)"
    assert HIDDEN.reveal() == b"do not show me"


def test_it_is_equal_to_the_same_secret_only() -> None:
    assert Secret(b"do not show me") == HIDDEN
    assert Secret(b"something else") != HIDDEN
    assert HIDDEN != b"do not show me"


def test_it_cannot_be_pickled_copied_or_hashed() -> None:
    for leak in (pickle.dumps, copy.copy, copy.deepcopy, hash):
        with pytest.raises(TypeError):
            leak(HIDDEN)
