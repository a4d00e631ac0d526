"""One look at the running agent, as plain values: for the status file, `headgate status` and whoever else asks."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any, Final

from agent.pipeline import Pipeline
from protocol.ethereum import checksum_address

__all__ = ["STATUS_VERSION", "collect_status", "is_process", "read_status", "write_status"]

STATUS_VERSION: Final = 1
MAX_STATUS_BYTES: Final = 4 << 20
MAX_VALUE_CHARACTERS: Final = 80


async def collect_status(pipeline: Pipeline, now_ms: int, pid: int) -> dict[str, Any]:
    """JSON-ready. Field names are released: they may be added to, never changed."""
    stats = await pipeline.journal.call(lambda: pipeline.journal.journal.stats(now_ms))
    keeper = pipeline.keeper.status
    return {
        "version": STATUS_VERSION,
        "written_at_ms": now_ms,
        "pid": pid,
        "device": {"name": pipeline.config.device.name, "address": checksum_address(pipeline.keys.address)},
        "started_at_ms": pipeline.started_at_ms,
        "is_moving": await pipeline.is_moving(),
        "messages": keeper.messages,
        "refused_readings": keeper.refused,
        "unrouted_readings": keeper.unrouted,
        "storage_problem": keeper.problem,
        "devices": {name: _device(collector.status) for name, collector in pipeline.collectors.items()},
        "journal": {
            "bytes_on_disk": stats.bytes_on_disk,
            "max_bytes": stats.max_bytes,
            "full_in_s": stats.full_in_s,
            "card_life_s": stats.card_life_s,
            "commits": stats.commits,
            "written_per_payload_byte": stats.written_per_payload_byte,
            "shed_records": stats.shed_records,
            "damaged_records": stats.damaged_records,
            "pending_gaps": stats.pending_gaps,
            "waiting": {name: cursor.depth for name, cursor in stats.cursors.items()},
            "oldest_waits_s": {name: cursor.oldest_age_s for name, cursor in stats.cursors.items()},
        },
        "links": {name: _link(link.delivery.status) for name, link in pipeline.links.items()},
        "archives": _archives(pipeline),
    }


def _device(status: Any) -> dict[str, Any]:
    last = status.last
    return {
        "state": status.state,
        "reason": status.reason,
        "readings": status.readings,
        "last": None
        if last is None
        else {
            "sensor": last.sensor,
            "quantity": last.quantity,
            "value": f"{len(last.value)} bytes" if isinstance(last.value, bytes) else last.value,
            "unit": last.unit,
            "taken_at_ms": last.taken_at_ms,
        },
    }


def _link(status: Any) -> dict[str, Any]:
    return {
        "is_up": status.is_up,
        "problem": status.problem,
        "sent": status.sent,
        "acknowledged": status.acknowledged,
        "set_aside": status.set_aside,
        "last_acknowledged_at_ms": status.last_acknowledged_at_ms,
    }


def _archives(pipeline: Pipeline) -> dict[str, Any] | None:
    if pipeline.archiving is None:
        return None
    kept = pipeline.archiving.kept
    shipper = pipeline.shipper
    return {
        "kept": len(kept),
        "kept_bytes": sum(archive.size_bytes for archive in kept),
        "problem": pipeline.archiving.problem,
        "shipped": 0 if shipper is None else shipper.status.shipped,
        "ship_problem": "" if shipper is None else shipper.status.problem,
    }


def write_status(path: Path, status: dict[str, Any]) -> None:
    """Whole or not at all to readers; not synced, for it is of no use after a crash. A disk that refuses is left be."""
    with contextlib.suppress(OSError):
        temporary = path.with_name(f".{path.name}.new")
        temporary.write_text(json.dumps(status))
        temporary.replace(path)


def read_status(path: Path) -> dict[str, Any]:
    """Raises: OSError, ValueError if it is no status file."""
    with path.open("rb") as file:
        status = json.loads(file.read(MAX_STATUS_BYTES))
    if not isinstance(status, dict) or status.get("version") != STATUS_VERSION:
        raise ValueError(f"{path}: not a status file of version {STATUS_VERSION}")
    return status


def is_process(pid: int) -> bool:
    """Whether there is such a process, whoever's it is."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
