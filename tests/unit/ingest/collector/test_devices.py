import json
from pathlib import Path

import pytest

from ingest.collector.devices import AllowList, Device, device_from_public_file, parse_address
from ingest.collector.errors import ConfigError
from protocol.ethereum import checksum_address
from tests.archives import BINDING

DEVICE = Device(address=BINDING.address, enrolled_at_ms=5, archive_key=BINDING.archive_key, label="boiler house")


def test_what_was_enrolled_is_found_again(tmp_path: Path) -> None:
    allow_list = AllowList(tmp_path / "devices")
    assert allow_list.find(BINDING.address) is None
    allow_list.enrol(DEVICE)
    assert allow_list.find(BINDING.address) == DEVICE
    assert list(AllowList(tmp_path / "devices").devices()) == [DEVICE]


def test_a_revoked_device_is_not_forgotten_and_may_be_enrolled_again(tmp_path: Path) -> None:
    allow_list = AllowList(tmp_path / "devices")
    allow_list.enrol(DEVICE)
    assert allow_list.revoke(BINDING.address, now_ms=7).revoked_at_ms == 7
    assert allow_list.revoke(BINDING.address, now_ms=9).revoked_at_ms == 7
    allow_list.enrol(DEVICE)
    assert [device.is_revoked for device in allow_list.devices()] == [False]


def test_a_stranger_cannot_be_revoked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="never enrolled"):
        AllowList(tmp_path).revoke(BINDING.address, now_ms=1)


def test_an_address_is_read_in_any_case_but_not_with_a_wrong_checksum() -> None:
    text = checksum_address(BINDING.address)
    assert parse_address(text) == parse_address(text.lower()) == parse_address("0x" + text[2:].upper())
    with pytest.raises(ConfigError, match="capitals"):
        parse_address("0x" + text[2:].swapcase())
    for wrong in ("", text[2:], text[:-1], text + "0", "0x" + "g" * 40, "0x../../" + "a" * 34):
        with pytest.raises(ConfigError, match="no address"):
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


def test_a_label_is_short_and_printable() -> None:
    for label in ("x" * 101, "two\nlines", "\x1b[2J"):
        with pytest.raises(ValueError, match="label"):
            Device(address=BINDING.address, enrolled_at_ms=1, label=label)
