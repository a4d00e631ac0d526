import io
import json
import logging
from collections.abc import Iterator

import pytest

from agent.config import LogConfig
from agent.logs import MAX_LINE_CHARACTERS, set_up_logs


@pytest.fixture(autouse=True)
def _own_handlers() -> Iterator[None]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = before, level


def _logged(config: LogConfig, environment: dict[str, str], *messages: str) -> list[str]:
    stream = io.StringIO()
    set_up_logs(config, stream, environment)
    for message in messages:
        logging.getLogger("agent.test").warning(message)
    return stream.getvalue().splitlines()


def test_journald_gets_priorities_and_no_second_time() -> None:
    assert _logged(LogConfig(), {"JOURNAL_STREAM": "8:1"}, "link down; url=x") == ["<4>WARNING link down; url=x"]


def test_one_event_is_one_line_of_bounded_length() -> None:
    (line,) = _logged(LogConfig(), {}, "a\nb" + "x" * 10_000)
    assert "a\\nb" in line
    assert len(line) <= MAX_LINE_CHARACTERS


def test_json_on_request() -> None:
    (line,) = _logged(LogConfig(form="json"), {}, "hello")
    assert json.loads(line)["message"] == "hello"


def test_what_is_below_the_level_is_not_written() -> None:
    assert _logged(LogConfig(level="error"), {}, "hello") == []
