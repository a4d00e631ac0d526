"""Messages of MQTT firmware. `README.md`, one folder up, says where they come from."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivers.mqtt.mappings import Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A message that a device sent, and what is to be read from it; None if nothing is meant by it for us."""

    family: str
    device: str
    topic: str
    payload: bytes
    samples: list[Sample] | None
    is_refused: bool  # it makes no sense, and is counted as damaged


def recorded() -> list[Recorded]:
    return [_recorded(entry) for entry in load("recorded")]


def load(name: str) -> Any:
    return json.loads((Path(__file__).parent / f"{name}.json").read_text(encoding="utf-8"))


def _recorded(entry: dict[str, Any]) -> Recorded:
    samples, is_refused = entry["samples"], entry["samples"] == "refused"
    return Recorded(
        family=entry["family"],
        device=entry["device"],
        topic=entry["topic"],
        payload=entry["payload"].encode(),
        samples=None if samples is None or is_refused else [Sample(*sample) for sample in samples],
        is_refused=is_refused,
    )
