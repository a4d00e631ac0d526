"""Statuses as the agent makes them, for who shows them."""

from typing import Any


def sensor(quantity: str = "temperature", value: Any = 21.5, **changes: Any) -> dict[str, Any]:
    return {"sensor": "boiler", "quantity": quantity, "value": value, "unit": "Cel", "taken_at_ms": 9_000, **changes}


def status(**changes: Any) -> dict[str, Any]:
    """All is well, with one device, two links and archives; top-level fields may be replaced."""
    whole = {
        "version": 1,
        "headgate": "0.1.0",
        "written_at_ms": 10_000,
        "pid": 1,
        "device": {"name": "bench", "address": "0xAb"},
        "started_at_ms": 1_000,
        "is_making_progress": True,
        "readings": 12,
        "messages": 3,
        "refused_readings": 0,
        "unrouted_readings": 0,
        "storage_problem": "",
        "clock": {"is_synchronised": True, "max_error_ms": 250},
        "devices": {
            "boiler": {
                "state": "up",
                "reason": "",
                "readings": 12,
                "counters": {"damaged_frames": 3},
                "rejected": {"total": 2, "kinds": [{"sensor": "boiler", "reason": "t is not a number", "count": 2}]},
                "last": sensor(),
                "sensors": [sensor(), sensor("valve", True, unit=""), sensor("mode", "eco", unit="")],
                "has_more_sensors": False,
            }
        },
        "journal": {
            "bytes_on_disk": 8_000_000,
            "max_bytes": 64_000_000,
            "free_bytes": 48_000_000,
            "full_in_s": 7_200.0,
            "card_life_s": None,
            "readings": 12,
            "messages": 3,
            "commits": 3,
            "payload_bytes": 1_000,
            "written_bytes": 4_096,
            "written_bytes_per_s": 10.0,
            "written_per_payload_byte": 4.1,
            "shed_readings": 0,
            "damaged_readings": 0,
            "torn_tails": 0,
            "pending_losses": 0,
            "lanes": {"0": {"readings": 1, "segments": 1}, "4": {"readings": 11, "segments": 1}},
            "pending": {"out": 0, "node": 5},
            "oldest_pending_s": {"out": None, "node": 61.5},
        },
        "links": {
            "out": link(),
            "node": link(is_up=False, problem="refused", failures=3, readings_acknowledged=0, messages_acknowledged=0),
        },
        "archives": {
            "pending": 2,
            "pending_bytes": 500,
            "problem": "",
            "ships": True,
            "shipped": 1,
            "shipped_bytes": 250,
            "ship_problem": "",
            "log": log(),
        },
        "events": [{"at_ms": 1_000, "level": "INFO", "text": "running; device=bench", "times": 1}],
    }
    return {**whole, **changes}


def log(**changes: Any) -> dict[str, Any]:
    whole = {
        "id": "ab" * 16,
        "size": 3,
        "continues": "",
        "reason": "",
        "checkpoint_at_ms": 8_000,
        "held_size": 1,
        "problem": "",
    }
    return {**whole, **changes}


def link(**changes: Any) -> dict[str, Any]:
    whole = {
        "is_up": True,
        "problem": "",
        "failures": 0,
        "connections": 1,
        "readings_sent": 12,
        "messages_sent": 3,
        "readings_acknowledged": 12,
        "messages_acknowledged": 3,
        "readings_quarantined": 0,
        "messages_quarantined": 0,
        "messages_removed": 0,
        "blocked": "",
        "last_acknowledged_at_ms": 9_500,
    }
    return {**whole, **changes}
