"""Converting stream messages between versions, held against what real releases make of the same input."""

import json
from typing import Any

import pytest

from protocol.errors import Unsupported
from protocol.streamr.stream_message import parse_stream_message
from tests.support.streamr_vectors import load_vectors

VECTORS = load_vectors("convert_stream")


def test_every_vector_is_here() -> None:
    assert len(VECTORS) == 38


@pytest.mark.parametrize("vector", VECTORS)
def test_a_message_is_converted_as_real_releases_do_or_refused_where_they_deceive(
    vector: dict[str, Any],
) -> None:
    message = parse_stream_message(vector["input"])
    if deceives(vector):
        with pytest.raises(Unsupported, match=f"cannot be written as version {vector['to']}"):
            message.serialize(version=vector["to"])
    else:
        expected = vector["output"].replace("[null,null]", "null")  # release 2.2.15 wrote that for no reference
        assert message.serialize(version=vector["to"]) == expected


def deceives(vector: dict[str, Any]) -> bool:
    """Whether the reader would take ciphertext for content, or get a signature that can no longer hold."""
    message = parse_stream_message(vector["input"])
    to = vector["to"]
    return bool(
        (message.new_group_key and to < 32)
        or (message.encryption_type and to < 31)
        or (message.signature_type == 2 and to == 29)
    )


def test_the_vectors_hold_every_loss_that_is_refused_and_many_conversions_that_are_not() -> None:
    refused = [(vector["from"], vector["to"]) for vector in VECTORS if deceives(vector)]
    assert {(30, 29), (31, 29), (31, 28), (31, 30), (32, 30)} == set(refused)
    assert len(VECTORS) - len(refused) == 28


SIGNED_32 = '[32,["s",0,9,1,"p","c"],[8,0],27,0,0,null,"{}",null,2,"0xab"]'
ENCRYPTED_32 = '[32,["s",0,9,1,"p","c"],[8,0],27,0,2,"key","00",null,2,"0xab"]'
ROTATING_32 = '[32,["s",0,9,1,"p","c"],[8,0],27,0,2,"key","00","[\\"k\\",\\"ff\\"]",2,"0xab"]'
ROTATING_31 = '[31,["s",0,9,1,"p","c"],[8,0],27,3,"00",2,"0xab"]'
REQUEST_30 = '[30,["s",0,9,1,"p","c"],null,28,"{}",0,null]'


@pytest.mark.parametrize(
    ("text", "version", "problem"),
    [
        (SIGNED_32, 29, "signature: could not be checked"),
        (ENCRYPTED_32, 30, "encryption_type: would be lost"),
        (ENCRYPTED_32, 28, "encryption_type: would be lost"),
        (ROTATING_32, 31, "new_group_key: would be lost"),
        (ROTATING_31, 32, "encryption_type: must be"),
        (REQUEST_30, 29, "message_type: GROUP_KEY_REQUEST does not exist there"),
        ('[30,["s",0,9,1,"p","c"],null,27,"{",0,null]', 28, "content: is not JSON"),
        (SIGNED_32, 27, "version: must be"),
    ],
)
def test_a_conversion_that_would_deceive_says_why_it_is_refused(text: str, version: int, problem: str) -> None:
    with pytest.raises(Unsupported) as caught:
        parse_stream_message(text).serialize(version=version)
    assert str(caught.value).startswith(f"cannot be written as version {version}: {problem}")


def test_a_new_group_key_cannot_be_written_in_the_draft() -> None:
    with pytest.raises(Unsupported, match="new_group_key: would be lost"):
        parse_stream_message(ROTATING_32).serialize(draft=True)


def test_a_legacy_signature_survives_the_way_up_and_down_again() -> None:
    text = '[29,"s",0,9,0,9,8,27,"{}",1,"0xa5","0xab"]'
    modern = parse_stream_message(parse_stream_message(text).serialize(version=30))
    assert json.loads(modern.serialize(version=29))[9:] == [1, "0xa5", "0xab"]


def test_the_group_key_id_is_dropped_for_version_31_which_knows_the_key_without_it() -> None:
    assert parse_stream_message(ENCRYPTED_32).serialize(version=31) == (
        '[31,["s",0,9,1,"p","c"],[8,0],27,2,"00",2,"0xab"]'
    )
