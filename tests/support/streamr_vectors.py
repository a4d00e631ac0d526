"""Golden data that real implementations produced; tests/vectors/streamr holds it."""

import json
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).parents[1] / "vectors" / "streamr"


def load_vectors(name: str) -> list[dict[str, Any]]:
    """Every entry of one file."""
    entries: list[dict[str, Any]] = json.loads((VECTORS / f"{name}.json").read_bytes())
    return entries
