from dataclasses import asdict

import pytest

from agent.archiving import _check_archive_key
from agent.errors import ConfigError
from agent.keys import DeviceKeys, Secret
from agent.keys.device_keys import PublicPart


def _keys(archive: bytes, stated: DeviceKeys | None = None) -> DeviceKeys:
    public = None if stated is None else PublicPart(**asdict(stated.binding))
    return DeviceKeys(identity=Secret(b"\x07" * 32), archive=Secret(archive), vault=Secret(b"\x09" * 32), stated=public)


def test_an_archive_key_that_is_not_the_published_one_is_told_before_anything_is_archived() -> None:
    published = _keys(b"\x08" * 32)
    _check_archive_key(_keys(b"\x08" * 32, published))
    with pytest.raises(ConfigError, match=r"device\.key_file: the secrets belong to another device"):
        _check_archive_key(_keys(b"\x0a" * 32, published))
