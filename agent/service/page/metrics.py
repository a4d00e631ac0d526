"""The status as Prometheus metrics.

Names carry their unit; what only rises ends in `_total`. Labels name devices, sensors and links, so there are only as
many samples as the status holds.
"""

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

from agent.service.page.history import as_number
from runtime.prometheus_text import Family, Kind, Sample, encode_families

IS_UP: Final = ("up", "degraded")

Status = Mapping[str, Any]
Samples = Callable[[Status], Iterable[Sample]]


class Metric(NamedTuple):
    name: str
    kind: Kind
    help: str
    samples: Samples


def metrics_text(status: Status) -> bytes:
    return encode_families(Family(each.name, each.kind, each.samples(status), each.help) for each in METRICS)


# Samples of a status


def _one(*path: str) -> Samples:
    """One sample: the value at this path; none if a part of the path is None."""

    def samples(status: Status) -> Iterable[Sample]:
        value: Any = status
        for key in path:
            if value is None:
                return
            value = value[key]
        yield {}, value

    return samples


def _each(*path: str, label: str, value_of: Callable[[Any], float | None] = lambda value: value) -> Samples:
    """One sample for each entry of the mapping at this path, labelled with its name."""

    def samples(status: Status) -> Iterable[Sample]:
        entries: Any = status
        for key in path:
            entries = entries[key]
        return [({label: name}, value_of(entry)) for name, entry in entries.items()]

    return samples


def _of_device(value_of: Callable[[Any], float]) -> Samples:
    return _each("devices", label="device", value_of=value_of)


def _of_link(value_of: Callable[[Any], float | None]) -> Samples:
    return _each("links", label="link", value_of=value_of)


def _of_sensor(value_of: Callable[[Any], float | None]) -> Samples:
    """One sample for each sensor whose value is a number."""

    def samples(status: Status) -> Iterable[Sample]:
        for device, each in status["devices"].items():
            for sensor in each["sensors"]:
                if not math.isnan(as_number(sensor["value"])):
                    names = {"sensor": sensor["sensor"], "quantity": sensor["quantity"], "unit": sensor["unit"]}
                    yield {"device": device, **names}, value_of(sensor)

    return samples


def _driver_values(status: Status) -> Iterable[Sample]:
    for device, each in status["devices"].items():
        for name, value in each["counters"].items():
            yield {"device": device, "name": name}, value


def _rejected(status: Status) -> Iterable[Sample]:
    for device, each in status["devices"].items():
        for kind in each["rejected"]["kinds"]:
            yield {"device": device, "sensor": kind["sensor"], "reason": kind["reason"]}, kind["count"]


def _info(status: Status) -> Iterable[Sample]:
    device = status["device"]
    yield {"version": status["headgate"], "device": device["name"], "address": device["address"]}, 1


def _shipping(status: Status) -> Iterable[Sample]:
    archives = status["archives"]
    yield {}, None if archives is None else bool(archives["problem"] or archives["ship_problem"])


def _of_log(value_of: Callable[[dict[str, Any]], float | None]) -> Samples:
    def samples(status: Status) -> Iterable[Sample]:
        yield {}, None if status["archives"] is None else value_of(status["archives"]["log"])

    return samples


def _value(value_of: Callable[[Status], float | None]) -> Samples:
    return lambda status: [({}, value_of(status))]


def _seconds(at_ms: int | None) -> float | None:
    return None if at_ms is None else at_ms / 1000


def _resident_bytes(_: Status) -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _open_files(_: Status) -> float:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def _gauge(name: str, text: str, samples: Samples) -> Metric:
    return Metric(f"headgate_agent_{name}", "gauge", text, samples)


def _counter(name: str, text: str, samples: Samples) -> Metric:
    return Metric(f"headgate_agent_{name}_total", "counter", text, samples)


# All metrics. Those in the next four tables have the names of their fields in the status.

JOURNAL_GAUGES: Final = {
    "max_bytes": "Size limit of the journal.",
    "free_bytes": "Free space of the journal before readings are lost.",
    "pending_losses": "Losses not yet reported, or reported without a receipt.",
}
JOURNAL_COUNTERS: Final = {
    "readings": "Readings committed, over the life of the journal.",
    "messages": "Messages committed, over the life of the journal.",
    "commits": "Commits, over the life of the journal.",
    "payload_bytes": "Bytes of messages, over the life of the journal.",
    "written_bytes": "Bytes written to disk, over the life of the journal.",
    "shed_readings": "Readings dropped because the journal was full, over its life.",
    "damaged_readings": "Readings lost to disk damage, over the life of the journal.",
    "torn_tails": "Power cuts during a commit, over the life of the journal.",
}
LINK_COUNTERS: Final = {
    "connections": "Connections made since the start.",
    "readings_sent": "Readings sent since the start, including retries.",
    "messages_sent": "Messages sent since the start, including retries.",
    "readings_acknowledged": "Readings acknowledged since the start.",
    "messages_acknowledged": "Messages acknowledged since the start.",
    "readings_quarantined": "Readings that the destination rejected, now in quarantine, since the start.",
    "messages_quarantined": "Messages that the destination rejected, now in quarantine, since the start.",
    "messages_removed": "Published messages that a file publisher removed at its size limit since the start.",
}
ARCHIVE_COUNTERS: Final = {
    "shipped": "Archives with a receipt, since the start.",
    "shipped_bytes": "Size of the archives with a receipt, since the start.",
}
METRICS: Final = (
    _gauge("info", "Which agent this is; always 1.", _info),
    _gauge(
        "start_time_seconds",
        "When the pipeline started, since the epoch.",
        _value(lambda status: _seconds(status["started_at_ms"])),
    ),
    _gauge("making_progress", "1 while readings reach the disk.", _one("is_making_progress")),
    _counter("readings_committed", "Readings committed since the start.", _one("readings")),
    _counter("messages_committed", "Messages committed since the start.", _one("messages")),
    _counter(
        "readings_refused", "Readings dropped because they are too large for a message.", _one("refused_readings")
    ),
    _counter("readings_unrouted", "Readings dropped because no stream rule matches them.", _one("unrouted_readings")),
    _gauge(
        "storage_failing",
        "1 while the journal cannot be written.",
        _value(lambda status: bool(status["storage_problem"])),
    ),
    _gauge("clock_synchronised", "1 while the clock is synchronised.", _one("clock", "is_synchronised")),
    _gauge(
        "clock_max_error_seconds",
        "Maximum error of the clock.",
        _value(lambda status: _seconds(status["clock"]["max_error_ms"])),
    ),
    # Devices and sensors
    _gauge("device_up", "1 while the device delivers readings.", _of_device(lambda device: device["state"] in IS_UP)),
    _gauge(
        "device_degraded",
        "1 while the device exceeds its rate limit or sends much damaged input.",
        _of_device(lambda device: device["state"] == "degraded"),
    ),
    _counter("device_readings", "Readings since the start.", _of_device(lambda device: device["readings"])),
    _gauge(
        "device_silent",
        "1 while a sensor that usually sends is silent.",
        _of_device(lambda device: device["state"] == "silent"),
    ),
    _counter("input_rejected", "Input that could not be parsed, by sensor and reason.", _rejected),
    _gauge("driver_value", "Counters and measurements of the driver, named as in its README.", _driver_values),
    _gauge(
        "sensor_value",
        "The last value, in its own unit; on is 1, off is 0.",
        _of_sensor(lambda sensor: as_number(sensor["value"])),
    ),
    _gauge(
        "sensor_reading_time_seconds",
        "Time of the last value, since the epoch.",
        _of_sensor(lambda sensor: _seconds(sensor["taken_at_ms"])),
    ),
    # The journal
    _gauge("journal_disk_bytes", "Size of the journal on disk.", _one("journal", "bytes_on_disk")),
    *(_gauge(f"journal_{key}", text, _one("journal", key)) for key, text in JOURNAL_GAUGES.items()),
    *(_counter(f"journal_{key}", text, _one("journal", key)) for key, text in JOURNAL_COUNTERS.items()),
    _gauge(
        "journal_full_seconds",
        "Time until the journal is full if nothing is acknowledged.",
        _one("journal", "full_in_s"),
    ),
    _gauge("card_life_seconds", "Time until the card is worn out at the current rate.", _one("journal", "card_life_s")),
    *(
        _gauge(f"lane_{key}", text, _each("journal", "lanes", label="lane", value_of=itemgetter(key)))
        for key, text in {"readings": "Readings in the lane.", "segments": "Segments of the lane."}.items()
    ),
    _gauge(
        "pending_readings",
        "Readings committed and not yet acknowledged, by reader.",
        _each("journal", "pending", label="cursor"),
    ),
    _gauge(
        "oldest_pending_seconds",
        "Age of the oldest unacknowledged reading, by reader.",
        _each("journal", "oldest_pending_s", label="cursor"),
    ),
    # Links and archives
    _gauge("link_up", "1 while the link is up.", _of_link(itemgetter("is_up"))),
    _gauge("link_failures", "Failed attempts in a row.", _of_link(itemgetter("failures"))),
    *(_counter(f"link_{key}", text, _of_link(itemgetter(key))) for key, text in LINK_COUNTERS.items()),
    _gauge(
        "link_last_acknowledged_time_seconds",
        "Time of the last acknowledgement, since the epoch.",
        _of_link(lambda link: _seconds(link["last_acknowledged_at_ms"])),
    ),
    _gauge("archives_pending", "Archives without a receipt yet.", _one("archives", "pending")),
    _gauge("archives_pending_bytes", "Size of the archives without a receipt.", _one("archives", "pending_bytes")),
    *(_counter(f"archives_{key}", text, _one("archives", key)) for key, text in ARCHIVE_COUNTERS.items()),
    _gauge("log_archives", "Archives in the device log.", _of_log(itemgetter("size"))),
    _gauge(
        "log_archives_held",
        "Archives of the device log that the collector holds without a hole, by its last answer.",
        _of_log(itemgetter("held_size")),
    ),
    _gauge(
        "log_checkpoint_time_seconds",
        "Time of the last checkpoint that the collector accepted, since the epoch.",
        _of_log(lambda log: _seconds(log["checkpoint_at_ms"])),
    ),
    _gauge(
        "log_incomplete",
        "1 while the collector holds less of the device log than it gave receipts for.",
        _of_log(lambda log: bool(log["problem"])),
    ),
    _gauge("archives_failing", "1 while archiving or shipping fails.", _shipping),
    # The process, by the usual names
    Metric("process_resident_memory_bytes", "gauge", "Memory of the process.", _value(_resident_bytes)),
    Metric(
        "process_cpu_seconds_total", "counter", "Processor time of the process.", _value(lambda _: time.process_time())
    ),
    Metric("process_open_fds", "gauge", "Open files of the process.", _value(_open_files)),
)
