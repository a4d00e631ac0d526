"""The page of settings is made of the types that check them."""

from pathlib import Path

import pytest

from agent.cli import main
from agent.config.reference import SECTIONS, settings_of

PAGE = Path(__file__).parents[3] / "docs" / "settings.md"


def test_the_page_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--settings"]) == 0
    printed = capsys.readouterr().out
    assert PAGE.read_text(encoding="utf-8") == printed, "run: headgate check --settings > docs/settings.md"


@pytest.mark.parametrize("section", SECTIONS)
def test_every_setting_is_explained(section: str) -> None:
    settings = list(settings_of(SECTIONS[section]))
    assert settings
    assert [setting.name for setting in settings if not setting.meaning] == []
