"""Every setting there is stands in the manual."""

import dataclasses
import re
from pathlib import Path

import pytest

from agent import config, page_config, publisher_config
from agent.routing import StreamRule

MANUAL = Path(__file__).parents[3] / "docs" / "agent.md"
SECTIONS = [
    config.DeviceConfig,
    config.JournalConfig,
    config.ArchiveConfig,
    config.ShipConfig,
    page_config.PageConfig,
    config.StatusConfig,
    config.LogConfig,
    StreamRule,
    *publisher_config.KINDS.values(),
]


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.__name__)
def test_every_setting_stands_in_the_manual(section: type) -> None:
    named = set(re.findall(r"`(?:\w+\.)?(\w+)`", MANUAL.read_text(encoding="utf-8")))
    assert {field.name for field in dataclasses.fields(section)} <= named
