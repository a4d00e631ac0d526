"""Logs: one line per event on stderr, words then key=value; with the priorities that journald reads, or as JSON.

Nothing is written to a file: who keeps logs, and how many, is the service manager's affair. The last few events are
kept in memory for the status page, whatever the level of the log: they are changes of state, and few.
"""

import json
import logging
import os
import sys
from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple, TextIO

from agent.config import LogConfig

__all__ = ["RECENT_EVENTS", "Event", "RecentEvents", "set_up_logs"]

MAX_LINE_CHARACTERS: Final = 2000
MAX_EVENTS: Final = 60
MAX_EVENT_CHARACTERS: Final = 400
ROUTINE: Final = frozenset({"archived", "shipped", "keys given"})
_PRIORITIES: Final = {"DEBUG": 7, "INFO": 6, "WARNING": 4, "ERROR": 3, "CRITICAL": 2}  # of syslog


class LineFormatter(logging.Formatter):
    """A priority in front where journald reads the lines, a time where a person does."""

    def __init__(self, *, is_journal: bool) -> None:
        super().__init__("%(levelname)s %(message)s" if is_journal else "%(asctime)s %(levelname)s %(message)s")
        self._is_journal = is_journal

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record).replace("\n", "\\n")[:MAX_LINE_CHARACTERS]
        return f"<{_PRIORITIES.get(record.levelname, 6)}>{text}" if self._is_journal else text


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()[:MAX_LINE_CHARACTERS]
        told = {"at": record.created, "level": record.levelname, "module": record.name, "message": text}
        if record.exc_info:
            told["traceback"] = self.formatException(record.exc_info)
        return json.dumps(told)


class Event(NamedTuple):
    """What happened; `times` in a row, where it is routine."""

    at_ms: int
    level: str
    text: str
    times: int


class RecentEvents(logging.Handler):
    """Keeps the last events, newest last. Routine does not push out what matters: repetitions of it are one event."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._events: deque[Event] = deque(maxlen=MAX_EVENTS)

    def emit(self, record: logging.LogRecord) -> None:
        event = Event(int(record.created * 1000), record.levelname, record.getMessage()[:MAX_EVENT_CHARACTERS], times=1)
        headline = _headline(event)
        if headline in ROUTINE and self._events and _headline(self._events[-1]) == headline:
            event = event._replace(times=self._events.pop().times + 1)
        self._events.append(event)

    def events(self) -> list[Event]:
        self.acquire()
        try:
            return list(self._events)
        finally:
            self.release()


def _headline(event: Event) -> str:
    return event.text.partition(";")[0]


RECENT_EVENTS: Final = RecentEvents()  # one for the process, as logging itself


def set_up_logs(config: LogConfig, stream: TextIO | None = None, environment: Mapping[str, str] = os.environ) -> None:
    """May be called again, after a reload."""
    handler = logging.StreamHandler(stream or sys.stderr)
    is_journal = "JOURNAL_STREAM" in environment
    handler.setFormatter(JsonFormatter() if config.form == "json" else LineFormatter(is_journal=is_journal))
    root = logging.getLogger()
    handler.setLevel(config.level.upper())
    root.handlers[:] = [handler, RECENT_EVENTS]
    root.setLevel(min(handler.level, RECENT_EVENTS.level))
    for chatty in ("websockets", "pymodbus"):
        logging.getLogger(chatty).setLevel(max(handler.level, logging.WARNING))
