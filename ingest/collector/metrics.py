"""Counters of the collector, and their text for Prometheus."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from protocol.shipping import Refusal
from runtime.http import HttpCounts
from runtime.prometheus_text import Sample, counter, encode_families, gauge, of_one_label

PREFIX: Final = "headgate_collector_"


class Metrics:
    """Counters since the start. Label values come from closed sets, never from a client."""

    def __init__(self) -> None:
        self.http = HttpCounts()
        self.refusals: Counter[Refusal] = Counter()
        self.archives_stored = 0
        self.bytes_stored = 0
        self.bytes_received = 0
        self.receipts_repeated = 0
        self.heartbeats = 0
        self.parts_expired = 0

    def as_text(self, gauges: Mapping[str, int]) -> bytes:
        """`gauges` are values measured elsewhere."""
        responses = {str(status): count for status, count in sorted(self.http.responses.items())}
        refusals = {refusal.code: self.refusals[refusal] for refusal in Refusal}
        counters: dict[str, Iterable[Sample] | int] = {
            "responses": of_one_label("status", responses),
            "refusals": of_one_label("code", refusals),
            "archives_stored": self.archives_stored,
            "bytes_stored": self.bytes_stored,
            "bytes_received": self.bytes_received,
            "receipts_repeated": self.receipts_repeated,
            "heartbeats": self.heartbeats,
            "connections_accepted": self.http.accepted,
            "connections_evicted": self.http.evicted,
            "partial_uploads_expired": self.parts_expired,
            "internal_errors": self.http.faults,
        }
        all_gauges = {"connections": self.http.open, **gauges}
        return encode_families(
            [
                *(counter(f"{PREFIX}{name}_total", counted) for name, counted in counters.items()),
                *(gauge(f"{PREFIX}{name}", value) for name, value in all_gauges.items()),
            ]
        )
