"""Counters, and the text in which Prometheus reads them."""

from collections import Counter
from collections.abc import Mapping

from protocol.shipping import Refusal

CONTENT_TYPE_METRICS = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """What happened since the start. Labels come from closed sets, never from a client."""

    def __init__(self) -> None:
        self.answers: Counter[int] = Counter()
        self.refusals: Counter[Refusal] = Counter()
        self.archives_stored = 0
        self.bytes_stored = 0
        self.bytes_received = 0
        self.receipts_repeated = 0
        self.connections_accepted = 0
        self.connections_pushed_out = 0
        self.parts_expired = 0
        self.open_connections = 0
        self.faults = 0  # of the program; each has a traceback in the log

    def as_text(self, gauges: Mapping[str, int]) -> str:
        """`gauges` are what others measure at this moment."""
        lines = [
            *_labelled("answers_total", "status", {str(status): n for status, n in sorted(self.answers.items())}),
            *_labelled("refusals_total", "code", {refusal.code: self.refusals[refusal] for refusal in Refusal}),
            *_plain("archives_stored_total", "counter", self.archives_stored),
            *_plain("bytes_stored_total", "counter", self.bytes_stored),
            *_plain("bytes_received_total", "counter", self.bytes_received),
            *_plain("receipts_repeated_total", "counter", self.receipts_repeated),
            *_plain("connections_accepted_total", "counter", self.connections_accepted),
            *_plain("connections_pushed_out_total", "counter", self.connections_pushed_out),
            *_plain("parts_expired_total", "counter", self.parts_expired),
            *_plain("faults_total", "counter", self.faults),
            *_plain("connections", "gauge", self.open_connections),
        ]
        for name, value in gauges.items():
            lines += _plain(name, "gauge", value)
        return "\n".join(lines) + "\n"


def _plain(name: str, kind: str, value: int) -> list[str]:
    return [f"# TYPE headgate_collector_{name} {kind}", f"headgate_collector_{name} {value}"]


def _labelled(name: str, label: str, values: Mapping[str, int]) -> list[str]:
    head = f"# TYPE headgate_collector_{name} counter"
    return [head, *(f'headgate_collector_{name}{{{label}="{value}"}} {count}' for value, count in values.items())]
