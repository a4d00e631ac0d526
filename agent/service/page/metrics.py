"""The status as Prometheus metrics: one table of all metrics.

Names carry their unit; what only rises ends in `_total`. Labels name devices, sensors and links, so there are only as
many samples as the status holds.
"""

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from agent.service.page.history import as_number
from runtime.prometheus_text import Family, Kind, Sample, encode_families

IS_UP: Final = ("up", "troubled")

Status = Mapping[str, Any]


class Metric(NamedTuple):
    name: str
    kind: Kind
    help: str
    samples: Callable[[Status], Iterable[Sample]]


def metrics_text(status: Status) -> bytes:
    return encode_families(Family(each.name, each.kind, each.samples(status), each.help) for each in METRICS)


# How the status becomes samples


def _one(*path: str) -> Callable[[Status], Iterable[Sample]]:
    def samples(status: Status) -> Iterable[Sample]:
        value: Any = status
        for key in path:
            if value is None:
                return
            value = value[key]
        yield {}, value

    return samples


def _each(section: str, label: str, value_of: Callable[[Any], float | None]) -> Callable[[Status], Iterable[Sample]]:
    def samples(status: Status) -> Iterable[Sample]:
        return [({label: name}, value_of(each)) for name, each in status[section].items()]

    return samples


def _of_device(value_of: Callable[[Any], float]) -> Callable[[Status], Iterable[Sample]]:
    return _each("devices", "device", value_of)


def _of_link(value_of: Callable[[Any], float | None]) -> Callable[[Status], Iterable[Sample]]:
    return _each("links", "link", value_of)


def _of_journal(part: str, label: str, value_of: Callable[[Any], float | None]) -> Callable[[Status], Iterable[Sample]]:
    def samples(status: Status) -> Iterable[Sample]:
        return [({label: name}, value_of(each)) for name, each in status["journal"][part].items()]

    return samples


def _of_sensor(value_of: Callable[[Any], float | None]) -> Callable[[Status], Iterable[Sample]]:
    """Of those sensors whose values are numbers."""

    def samples(status: Status) -> Iterable[Sample]:
        for device, each in status["devices"].items():
            for sensor in each["sensors"]:
                if not math.isnan(as_number(sensor["value"])):
                    names = {"sensor": sensor["sensor"], "quantity": sensor["quantity"], "unit": sensor["unit"]}
                    yield {"device": device, **names}, value_of(sensor)

    return samples


def _figures(status: Status) -> Iterable[Sample]:
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


def _seconds(at_ms: int | None) -> float | None:
    return None if at_ms is None else at_ms / 1000


def _started(status: Status) -> Iterable[Sample]:
    yield {}, _seconds(status["started_at_ms"])


def _clock_error(status: Status) -> Iterable[Sample]:
    yield {}, _seconds(status["clock"]["max_error_ms"])


def _storage(status: Status) -> Iterable[Sample]:
    yield {}, bool(status["storage_problem"])


def _shipping(status: Status) -> Iterable[Sample]:
    archives = status["archives"]
    yield {}, None if archives is None else bool(archives["problem"] or archives["ship_problem"])


def _resident_bytes(_: Status) -> Iterable[Sample]:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    yield {}, pages * os.sysconf("SC_PAGE_SIZE")


def _open_files(_: Status) -> Iterable[Sample]:
    yield {}, sum(1 for _ in Path("/proc/self/fd").iterdir())


def _cpu_seconds(_: Status) -> Iterable[Sample]:
    yield {}, time.process_time()


def _gauge(name: str, text: str, samples: Callable[[Status], Iterable[Sample]]) -> Metric:
    return Metric(f"headgate_agent_{name}", "gauge", text, samples)


def _counter(name: str, text: str, samples: Callable[[Status], Iterable[Sample]]) -> Metric:
    return Metric(f"headgate_agent_{name}_total", "counter", text, samples)


METRICS: Final = (
    _gauge("info", "Which agent this is; always 1.", _info),
    _gauge("start_time_seconds", "When the pipeline started, since the epoch.", _started),
    _gauge("moving", "1 while readings reach the disk.", _one("is_moving")),
    _counter("messages", "Messages committed since the start.", _one("messages")),
    _counter(
        "readings_refused", "Readings dropped because they are too large for a message.", _one("refused_readings")
    ),
    _counter("readings_unrouted", "Readings dropped because no stream rule matches them.", _one("unrouted_readings")),
    _gauge("storage_failing", "1 while the journal cannot be written.", _storage),
    _gauge("clock_synchronised", "1 while the clock is synchronised.", _one("clock", "is_synchronised")),
    _gauge("clock_max_error_seconds", "Maximum error of the clock.", _clock_error),
    # Devices and sensors
    _gauge("device_up", "1 while the device delivers readings.", _of_device(lambda device: device["state"] in IS_UP)),
    _gauge(
        "device_troubled",
        "1 while the device exceeds its rate limit or sends much damaged input.",
        _of_device(lambda device: device["state"] == "troubled"),
    ),
    _counter("device_readings", "Readings since the start.", _of_device(lambda device: device["readings"])),
    _gauge(
        "device_silent",
        "1 while a sensor that usually sends is silent.",
        _of_device(lambda device: device["state"] == "silent"),
    ),
    _counter("input_rejected", "Input that could not be parsed, by sensor and reason.", _rejected),
    _gauge("device_figure", "Counters of the driver, named as in its README.", _figures),
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
    _gauge("journal_max_bytes", "Size limit of the journal.", _one("journal", "max_bytes")),
    _gauge("journal_room_bytes", "Free space of the journal before records are lost.", _one("journal", "room_bytes")),
    _gauge(
        "journal_full_seconds",
        "Time until the journal is full if nothing is acknowledged.",
        _one("journal", "full_in_s"),
    ),
    _gauge("card_life_seconds", "Time until the card is worn out at the current rate.", _one("journal", "card_life_s")),
    _counter("journal_records", "Records committed, over the life of the journal.", _one("journal", "records")),
    _counter("journal_commits", "Commits, over the life of the journal.", _one("journal", "commits")),
    _counter(
        "journal_payload_bytes", "Bytes of messages, over the life of the journal.", _one("journal", "payload_bytes")
    ),
    _counter(
        "journal_written_bytes",
        "Bytes written to disk, over the life of the journal.",
        _one("journal", "written_bytes"),
    ),
    _counter(
        "journal_shed_records",
        "Records dropped because the journal was full, over its life.",
        _one("journal", "shed_records"),
    ),
    _counter(
        "journal_damaged_records",
        "Records lost to disk damage, over the life of the journal.",
        _one("journal", "damaged_records"),
    ),
    _counter(
        "journal_torn_tails", "Power cuts during a commit, over the life of the journal.", _one("journal", "torn_tails")
    ),
    _gauge(
        "journal_pending_gaps",
        "Losses not yet reported, or reported without a receipt.",
        _one("journal", "pending_gaps"),
    ),
    _gauge("lane_records", "Records in the lane.", _of_journal("lanes", "lane", lambda lane: lane["records"])),
    _gauge("lane_segments", "Segments of the lane.", _of_journal("lanes", "lane", lambda lane: lane["segments"])),
    _gauge(
        "waiting_records",
        "Records committed and not yet acknowledged, by reader.",
        _of_journal("waiting", "cursor", lambda depth: depth),
    ),
    _gauge(
        "oldest_waiting_seconds",
        "Age of the oldest unacknowledged record, by reader.",
        _of_journal("oldest_waits_s", "cursor", lambda age_s: age_s),
    ),
    # Links and archives
    _gauge("link_up", "1 while the link is up.", _of_link(lambda link: link["is_up"])),
    _gauge("link_failures", "Failed attempts in a row.", _of_link(lambda link: link["failures"])),
    _counter("link_connections", "Connections made since the start.", _of_link(lambda link: link["connections"])),
    _counter("link_sent", "Messages sent since the start, including retries.", _of_link(lambda link: link["sent"])),
    _counter(
        "link_acknowledged", "Messages acknowledged since the start.", _of_link(lambda link: link["acknowledged"])
    ),
    _counter(
        "link_set_aside",
        "Messages refused by the destination since the start.",
        _of_link(lambda link: link["set_aside"]),
    ),
    _counter(
        "link_removed",
        "Published messages that a file publisher removed at its size limit since the start.",
        _of_link(lambda link: link["removed"]),
    ),
    _gauge(
        "link_last_acknowledged_time_seconds",
        "Time of the last acknowledgement, since the epoch.",
        _of_link(lambda link: _seconds(link["last_acknowledged_at_ms"])),
    ),
    _gauge("archives_kept", "Archives without a receipt yet.", _one("archives", "kept")),
    _gauge("archives_kept_bytes", "Size of the archives without a receipt.", _one("archives", "kept_bytes")),
    _counter("archives_shipped", "Archives with a receipt, since the start.", _one("archives", "shipped")),
    _counter(
        "archives_shipped_bytes",
        "Size of the archives with a receipt, since the start.",
        _one("archives", "shipped_bytes"),
    ),
    _gauge("archives_failing", "1 while archiving or shipping fails.", _shipping),
    # The process, by the names that everybody uses
    Metric("process_resident_memory_bytes", "gauge", "Memory of the process.", _resident_bytes),
    Metric("process_cpu_seconds_total", "counter", "Processor time of the process.", _cpu_seconds),
    Metric("process_open_fds", "gauge", "Open files of the process.", _open_files),
)
