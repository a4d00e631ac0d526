"""A snapshot of the running agent as plain values, for the status file, `headgate status` and the page."""

import contextlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agent.clock import Clock
from agent.collect import Collector
from agent.journal import JournalStats
from agent.pipeline import Pipeline
from agent.service.logs import RECENT_EVENTS
from agent.version import VERSION
from drivers import Reading
from drivers.reading import Scalar
from drivers.rejects import Rejects
from protocol.ethereum import checksum_address

if TYPE_CHECKING:
    from agent.archive.state import ArchiveState
    from agent.ship.shipper import ShipperStatus

STATUS_VERSION: Final = 1
MAX_STATUS_BYTES: Final = 4 << 20
MAX_VALUE_CHARACTERS: Final = 80
MAX_FILED_EVENTS: Final = 8  # the file may be on the card, and is written often
JOURNAL_FIELDS: Final = (
    "bytes_on_disk", "max_bytes", "free_bytes", "full_in_s", "card_life_s", "readings", "commits", "payload_bytes",
    "written_bytes", "written_bytes_per_s", "written_per_payload_byte", "shed_readings", "damaged_readings",
    "torn_tails", "pending_losses",
)  # fmt: skip


async def collect_status(pipeline: Pipeline, clock: Clock, pid: int) -> dict[str, Any]:
    """The status in JSON types. Counts are of readings; those of messages say so."""
    now_ms = clock.now_ms()
    stats = await pipeline.journal.call(lambda: pipeline.journal.journal.stats(now_ms))
    committer = pipeline.committer.status
    return {
        "version": STATUS_VERSION,
        "headgate": VERSION,
        "written_at_ms": now_ms,
        "pid": pid,
        "configuration_sha256": pipeline.config.sha256.hex(),
        "device": {"name": pipeline.config.device.name, "address": checksum_address(pipeline.keys.address)},
        "started_at_ms": pipeline.started_at_ms,
        "is_making_progress": await pipeline.is_making_progress(),
        "readings": committer.readings,
        "messages": committer.messages,
        "refused_readings": committer.refused,
        "unrouted_readings": committer.unrouted,
        "storage_problem": committer.problem,
        "clock": _clock(clock),
        "devices": {name: _device(collector) for name, collector in pipeline.collectors.items()},
        "journal": _journal(stats),
        "links": {name: asdict(link.sender.status) for name, link in pipeline.links.items()},
        "archives": _archives(pipeline),
        "events": [event._asdict() for event in RECENT_EVENTS.events()],
    }


def _clock(clock: Clock) -> dict[str, Any]:
    reading = clock.read()
    return {"is_synchronised": reading.is_synchronised, "max_error_ms": reading.max_error_ms}


def _device(collector: Collector) -> dict[str, Any]:
    status = collector.status
    return {
        "driver": collector.driver.KIND,
        "state": status.state,
        "reason": status.reason,
        "readings": status.readings,
        "identity": dict(collector.driver.identity),
        "counters": dict(collector.counters),
        "rejected": _rejected(collector.driver.rejects),
        "last": None if status.last is None else _reading(status.last),
        "sensors": [_reading(reading) for reading in list(status.latest.readings.values())],
        "has_more_sensors": status.latest.has_more,
    }


def _rejected(rejects: Rejects) -> dict[str, Any]:
    """Input that could not be read; the most frequent kinds first."""
    kinds = sorted(rejects.counts.items(), key=lambda item: -item[1])
    return {
        "total": rejects.total,
        "kinds": [{"sensor": sensor, "reason": reason, "count": count} for (sensor, reason), count in kinds],
    }


def _reading(reading: Reading) -> dict[str, Any]:
    return {
        "sensor": reading.sensor,
        "quantity": reading.quantity,
        "value": _shown(reading.value),
        "unit": reading.unit,
        "taken_at_ms": reading.taken_at_ms,
    }


def _shown(value: Scalar | bytes) -> Scalar:
    match value:
        case bytes():
            return f"{len(value)} bytes"
        case str() if len(value) > MAX_VALUE_CHARACTERS:
            return value[:MAX_VALUE_CHARACTERS] + "…"
        case _:
            return value


def _journal(stats: JournalStats) -> dict[str, Any]:
    return {
        **{name: getattr(stats, name) for name in JOURNAL_FIELDS},
        "messages": stats.records,
        "lanes": {
            str(number): {"readings": lane.next_position - lane.first_position, "segments": lane.segments}
            for number, lane in stats.lanes.items()
        },
        "pending": {name: cursor.depth for name, cursor in stats.cursors.items()},
        "oldest_pending_s": {name: cursor.oldest_age_s for name, cursor in stats.cursors.items()},
    }


def _archives(pipeline: Pipeline) -> dict[str, Any] | None:
    if pipeline.archiving is None:
        return None
    kept = pipeline.archiving.kept
    shipper = pipeline.shipper
    return {
        "pending": len(kept),
        "pending_bytes": sum(archive.size_bytes for archive in kept),
        "problem": pipeline.archiving.problem,
        "ships": shipper is not None,
        "shipped": 0 if shipper is None else shipper.status.shipped,
        "shipped_bytes": 0 if shipper is None else shipper.status.shipped_bytes,
        "ship_problem": "" if shipper is None else shipper.status.problem,
        "log": _log(pipeline.archiving.state, None if shipper is None else shipper.status),
    }


def _log(state: "ArchiveState", shipping: "ShipperStatus | None") -> dict[str, Any]:
    """The device log, and what the collector said about it last."""
    return {
        "id": state.log.log.hex(),
        "size": state.log.size,
        "continues": state.log.previous_log.hex(),
        "reason": state.reason,
        "checkpoint_at_ms": None if shipping is None else shipping.checkpoint_at_ms,
        "held_size": None if shipping is None else shipping.held_size,
        "problem": "" if shipping is None else shipping.log_problem,
    }


def write_status(path: Path, status: dict[str, Any]) -> None:
    """Write the file as a whole. It is not synced, because it is of no use after a crash; a failing disk is ignored."""
    with contextlib.suppress(OSError):
        temporary = path.with_name(f".{path.name}.new")
        temporary.write_text(json.dumps({**status, "events": status["events"][-MAX_FILED_EVENTS:]}))
        temporary.replace(path)


def read_status(path: Path) -> dict[str, Any]:
    """Raises: OSError, ValueError if it is no status file."""
    with path.open("rb") as file:
        text = file.read(MAX_STATUS_BYTES)
    try:
        status = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not a status file: {error}") from None
    if not isinstance(status, dict) or status.get("version") != STATUS_VERSION:
        raise ValueError(f"{path}: not a status file of version {STATUS_VERSION}")
    return status


def is_process(pid: int) -> bool:
    """Whether a process with this id exists, of any user."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
