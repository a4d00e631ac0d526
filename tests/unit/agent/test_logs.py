import io
import json
import logging
from collections.abc import Iterator

import pytest

from agent.config import LogConfig
from agent.logs import MAX_EVENT_CHARACTERS, MAX_EVENTS, MAX_LINE_CHARACTERS, RecentEvents, set_up_logs


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


def _event(message: str, level: int = logging.INFO) -> logging.LogRecord:
    return logging.LogRecord("agent.test", level, "", 0, message, None, None)


def test_the_last_events_are_kept_bounded_in_number_and_length() -> None:
    recent = RecentEvents()
    for number in range(MAX_EVENTS + 5):
        recent.handle(_event(f"event {number}" + "x" * 10_000))
    events = recent.events()
    assert len(events) == MAX_EVENTS
    assert events[0].text.startswith("event 5x")
    assert {len(event.text) for event in events} == {MAX_EVENT_CHARACTERS}


def test_routine_does_not_push_out_what_matters() -> None:
    recent = RecentEvents()
    recent.handle(_event("link down, buffering; publisher=a", logging.WARNING))
    recent.handle(_event("link down, buffering; publisher=b", logging.WARNING))
    for number in range(3):
        recent.handle(_event(f"archived; file={number}"))
    assert [(event.text, event.times) for event in recent.events()] == [
        ("link down, buffering; publisher=a", 1),
        ("link down, buffering; publisher=b", 1),
        ("archived; file=2", 3),
    ]


def test_events_are_kept_below_the_level_of_the_log() -> None:
    stream = io.StringIO()
    set_up_logs(LogConfig(level="error"), stream, {})
    logging.getLogger("agent.test").info("kept; n=%d", 7)
    (_, recent) = logging.getLogger().handlers
    assert isinstance(recent, RecentEvents)
    assert recent.events()[-1].text == "kept; n=7"
    assert stream.getvalue() == ""
