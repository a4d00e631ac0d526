import hashlib
import pickle
import traceback
from collections.abc import Callable

import pytest

from agent.errors import ConfigError
from agent.keys import DeviceKeys, Secret
from agent.keys.key_file import ENVELOPE, PassphraseCost, decode_key_file, encode_key_file
from protocol.archive.layout import check_signature
from protocol.errors import Corrupt, Truncated, Unsupported, WireError
from tests.support.archives import sign

CHEAP = PassphraseCost(opslimit=1, memlimit_bytes=8192)
PASSPHRASE = Secret(b"correct horse")


def counting_bytes() -> Callable[[int], bytes]:
    """Stands in for chance: 1, 2, 3, … so that every secret is known and different."""
    numbers = iter(range(1, 256))
    return lambda count: bytes([next(numbers)]) * count


KEYS = DeviceKeys.generate(counting_bytes())
PLAIN = encode_key_file(KEYS, None, counting_bytes()).reveal()
LOCKED = encode_key_file(KEYS, PASSPHRASE, counting_bytes(), CHEAP).reveal()
SECRET_FORMS = [form for number in (1, 2, 3) for form in (f"{number:02x}" * 8, repr(bytes([number]) * 8)[2:-1])]


@pytest.mark.parametrize(("data", "passphrase"), [(PLAIN, None), (LOCKED, PASSPHRASE)])
def test_keys_come_back_from_a_file_with_and_without_passphrase(data: bytes, passphrase: Secret | None) -> None:
    found = decode_key_file(data).unlock(passphrase)
    assert found.binding == KEYS.binding
    assert found.secrets() == KEYS.secrets()


def test_the_public_part_is_read_without_the_passphrase() -> None:
    key_file = decode_key_file(LOCKED)
    assert key_file.binding == KEYS.binding
    assert key_file.has_passphrase
    assert not decode_key_file(PLAIN).has_passphrase


def test_a_locked_file_holds_no_secret_in_the_clear() -> None:
    for secret in KEYS.secrets().values():
        assert secret.reveal() in PLAIN
        assert secret.reveal() not in LOCKED


def test_a_missing_and_a_wrong_passphrase_are_distinguished_from_damage() -> None:
    with pytest.raises(ConfigError, match="none was given"):
        decode_key_file(LOCKED).unlock(None)
    with pytest.raises(ConfigError, match="wrong passphrase"):
        decode_key_file(LOCKED).unlock(Secret(b"wrong horse"))
    with pytest.raises(Corrupt, match="damaged"):
        decode_key_file(LOCKED[:-1] + b"?")


def test_no_byte_can_change_and_no_beginning_passes() -> None:
    for data in (PLAIN, LOCKED):
        for offset in range(len(data)):
            damaged = bytearray(data)
            damaged[offset] ^= 0x01
            with pytest.raises(WireError):
                decode_key_file(bytes(damaged))
            with pytest.raises(WireError):
                decode_key_file(data[:offset])


def with_checksum(content: bytes) -> bytes:
    return content + hashlib.sha256(content).digest()


def test_a_foreign_file_and_a_later_version_say_what_they_are() -> None:
    with pytest.raises(Corrupt, match="not a Headgate key file"):
        decode_key_file(b"-----BEGIN OPENSSH PRIVATE KEY-----")
    with pytest.raises(Unsupported, match="format 0003"):
        decode_key_file(b"HGKEYS\x00\x03" + PLAIN[8:])
    with pytest.raises(Truncated):
        decode_key_file(ENVELOPE.preamble)
    with pytest.raises(Corrupt, match="larger than 4096"):
        decode_key_file(ENVELOPE.preamble + bytes(5000))


def test_secrets_of_another_device_under_this_name_are_refused() -> None:
    other = DeviceKeys.generate(lambda count: b"\x77" * count)
    forged = PLAIN[:-32]
    for name, secret in KEYS.secrets().items():
        forged = forged.replace(secret.reveal(), other.secrets()[name].reveal())
    with pytest.raises(Corrupt, match="different devices"):
        decode_key_file(with_checksum(forged)).unlock(None)


def test_a_file_cannot_ask_for_a_gigabyte_to_check_a_passphrase() -> None:
    greedy = LOCKED[:-32].replace(b"hmemlimit\x19\x20\x00", b"hmemlimit\x1a\x40\x00\x00\x00")
    with pytest.raises(Corrupt, match="out of bounds"):
        decode_key_file(with_checksum(greedy))


def test_keys_show_their_address_and_cannot_be_pickled() -> None:
    assert repr(KEYS).startswith("DeviceKeys(0x")
    for holder in (KEYS, decode_key_file(PLAIN), KEYS.secrets()):
        assert not any(form in repr(holder) for form in SECRET_FORMS)
        with pytest.raises(TypeError):
            pickle.dumps(holder)


def unlock_with_wrong_passphrase() -> None:
    decode_key_file(LOCKED).unlock(Secret(bytes([1]) * 32))


def use_an_impossible_identity() -> None:
    DeviceKeys.generate(counting_bytes(), identity=Secret(b"\xff" * 32))


def use_a_short_identity() -> None:
    DeviceKeys.generate(counting_bytes(), identity=Secret(bytes([1]) * 31))


@pytest.mark.parametrize("fail", [unlock_with_wrong_passphrase, use_an_impossible_identity, use_a_short_identity])
def test_no_traceback_has_a_secret_even_with_all_local_variables(fail: Callable[[], None]) -> None:
    with pytest.raises((ConfigError, ValueError)) as caught:
        fail()
    shown = "".join(traceback.TracebackException.from_exception(caught.value, capture_locals=True).format())
    assert "Secret(" in shown or "KeyFile" in shown
    for form in [*SECRET_FORMS, "ff" * 8, r"\xff" * 8]:
        assert form not in shown


def test_derived_keys_differ_by_purpose_and_device_and_stay() -> None:
    assert KEYS.derive(b"one") == KEYS.derive(b"one") != KEYS.derive(b"two")
    assert DeviceKeys.generate(lambda count: b"\x77" * count).derive(b"one") != KEYS.derive(b"one")


def test_the_archive_key_signs_as_the_binding_says() -> None:
    check_signature(KEYS.binding.archive_key, b"m", KEYS.sign_archive(_signed(b"m")), offset=0)
    with pytest.raises(Corrupt):
        check_signature(KEYS.binding.archive_key, b"m", sign(_signed(b"m")), offset=0)


def _signed(manifest: bytes) -> bytes:
    return b"headgate archive 3\n" + hashlib.sha256(manifest).digest()
