"""The device log in words, for `headgate status`, `headgate top` and `headgate doctor`."""

from typing import Any

from agent.operator.terminal import duration_text
from protocol.shown_text import printable

SHOWN_DIGITS = 8  # of a log's id


def describe_log(log: dict[str, Any], now_ms: int) -> str:
    """One line: how long the log is, what the collector holds of it, and when it accepted the last checkpoint."""
    text = f"{log['id'][:SHOWN_DIGITS]}…: {log['size']} archives"
    if log["held_size"] is not None:
        text += f", the collector holds {log['held_size']} without a hole"
    if log["checkpoint_at_ms"] is not None:
        age_s = max(0.0, (now_ms - log["checkpoint_at_ms"]) / 1000)
        text += f", it accepted a checkpoint {duration_text(age_s)} ago"
    return text


def describe_origin(log: dict[str, Any]) -> str:
    """Why this log began, if it continues another one; otherwise empty."""
    if not log["reason"]:
        return ""
    continued = f"the log {log['continues'][:SHOWN_DIGITS]}… is continued by" if log["continues"] else "there is"
    return f"{continued} a new one: {printable(log['reason'])}"
