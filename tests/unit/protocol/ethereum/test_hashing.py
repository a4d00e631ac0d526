"""Keccak-256, addresses and their checksum, against published values."""

import pytest

from protocol.ethereum import portable_keccak
from protocol.ethereum.hashing import checksum_address, is_address, keccak256

EMPTY_HASH = "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"
EIP_55_EXAMPLES = [
    "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
    "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
    "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
]


def test_keccak_is_the_original_and_not_the_standardised_one() -> None:
    assert keccak256(b"").hex() == EMPTY_HASH


def testportable_keccak_gives_the_same() -> None:
    for length in (0, 1, 135, 136, 137, 1000):
        assert portable_keccak.keccak256(b"x" * length) == keccak256(b"x" * length)


@pytest.mark.parametrize("address", EIP_55_EXAMPLES)
def test_checksum_address_has_the_case_of_eip_55(address: str) -> None:
    assert checksum_address(address.lower()) == address
    assert checksum_address(address) == address


@pytest.mark.parametrize("text", ["", "0x", "0x" + "1" * 39, "0x" + "g" * 40, "0X" + "1" * 40, "1" * 42])
def test_what_is_no_address_has_no_checksum(text: str) -> None:
    assert not is_address(text)
    with pytest.raises(ValueError, match="address"):
        checksum_address(text)


def test_an_address_may_be_given_as_its_bytes() -> None:
    assert checksum_address(bytes.fromhex(EIP_55_EXAMPLES[0][2:])) == EIP_55_EXAMPLES[0]
