import json
from pathlib import Path

import pytest

from ingest.collector.devices import AllowList, Device, device_from_public_file, parse_address
from ingest.collector.errors import ConfigError, UploadRefused
from protocol.ethereum import checksum_address
from protocol.shipping import Refusal
from tests.support.archives import BINDING
from tests.support.device_logs import make_claim

DEVICE = Device(address=BINDING.address, enrolled_at_ms=5, archive_key=BINDING.archive_key, label="boiler house")


def test_what_was_enrolled_is_found_again(tmp_path: Path) -> None:
    allow_list = AllowList(tmp_path / "devices")
    assert allow_list.find(BINDING.address) is None
    allow_list.enrol(DEVICE)
    assert allow_list.find(BINDING.address) == DEVICE
    assert list(AllowList(tmp_path / "devices").devices()) == [DEVICE]


def test_a_revoked_device_stays_listed_and_may_be_enrolled_again(tmp_path: Path) -> None:
    allow_list = AllowList(tmp_path / "devices")
    allow_list.enrol(DEVICE)
    assert allow_list.revoke(BINDING.address, now_ms=7).revoked_at_ms == 7
    assert allow_list.revoke(BINDING.address, now_ms=9).revoked_at_ms == 7
    allow_list.enrol(DEVICE)
    assert [device.is_revoked for device in allow_list.devices()] == [False]


def test_an_unknown_device_cannot_be_revoked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="never enrolled"):
        AllowList(tmp_path).revoke(BINDING.address, now_ms=1)


def test_an_address_is_read_in_any_case_but_not_with_a_wrong_checksum() -> None:
    text = checksum_address(BINDING.address)
    assert parse_address(text) == parse_address(text.lower()) == parse_address("0x" + text[2:].upper())
    with pytest.raises(ConfigError, match="checksum"):
        parse_address("0x" + text[2:].swapcase())
    for wrong in ("", text[2:], text[:-1], text + "0", "0x" + "g" * 40, "0x../../" + "a" * 34):
        with pytest.raises(ConfigError, match="not an address"):
            parse_address(wrong)


def test_a_public_file_is_believed_only_if_its_binding_is_true(tmp_path: Path) -> None:
    path = tmp_path / "device.json"
    public = {
        "device": checksum_address(BINDING.address),
        "archive_key": BINDING.archive_key.hex(),
        "binding": "0x" + BINDING.signature.hex(),
    }
    path.write_text(json.dumps(public))
    assert device_from_public_file(path, 5, "boiler house") == DEVICE
    for change in ({"archive_key": "00" * 32}, {"device": "0x" + "11" * 20}, {"binding": "0x"}, {"device": 5}):
        path.write_text(json.dumps({**public, **change}))
        with pytest.raises(ConfigError, match="export-public"):
            device_from_public_file(path, 5, "")


CLAIM = make_claim(bytes(32))
KEY = BINDING.archive_key.hex()


def offered(folder: Path) -> AllowList:
    """A device that was enrolled by its address, and has offered its key."""
    allow_list = AllowList(folder)
    allow_list.enrol(Device(address=BINDING.address, enrolled_at_ms=5))
    with pytest.raises(UploadRefused) as caught:
        allow_list.check(CLAIM.binding)
    assert caught.value.refusal is Refusal.KEY_UNCONFIRMED
    return allow_list


def test_a_key_that_is_offered_waits_for_the_operator_and_counts_once_confirmed(tmp_path: Path) -> None:
    allow_list = offered(tmp_path)
    (device,) = allow_list.devices()
    assert (device.archive_key, device.offered_key) == (None, BINDING.archive_key)
    with pytest.raises(UploadRefused):
        allow_list.check(CLAIM.binding)
    assert allow_list.confirm(BINDING.address, KEY[:16].upper()).archive_key == BINDING.archive_key
    allow_list.check(CLAIM.binding)
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"]


@pytest.mark.parametrize("key", ["", KEY[:15], KEY[1:20], "0" * 16, "g" * 64, KEY + "0"])
def test_what_does_not_name_the_offered_key_confirms_nothing(tmp_path: Path, key: str) -> None:
    allow_list = offered(tmp_path)
    with pytest.raises(ConfigError):
        allow_list.confirm(BINDING.address, key)
    with pytest.raises(UploadRefused):
        allow_list.check(CLAIM.binding)


def test_the_operator_may_name_another_key_than_the_offered_one_in_full(tmp_path: Path) -> None:
    allow_list = offered(tmp_path)
    assert allow_list.confirm(BINDING.address, "ab" * 32).archive_key == b"\xab" * 32
    with pytest.raises(UploadRefused) as caught:
        allow_list.check(CLAIM.binding)
    assert caught.value.refusal is Refusal.DEVICE_UNKNOWN


def test_an_offer_cannot_undo_a_revocation(tmp_path: Path) -> None:
    allow_list = AllowList(tmp_path)
    allow_list.enrol(Device(address=BINDING.address, enrolled_at_ms=5))
    allow_list.revoke(BINDING.address, now_ms=7)
    with pytest.raises(UploadRefused) as caught:
        allow_list.check(CLAIM.binding)
    assert caught.value.refusal is Refusal.DEVICE_REVOKED
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"]


def test_a_label_is_short_and_printable() -> None:
    for label in ("x" * 101, "two\nlines", "\x1b[2J"):
        with pytest.raises(ValueError, match="label"):
            Device(address=BINDING.address, enrolled_at_ms=1, label=label)
