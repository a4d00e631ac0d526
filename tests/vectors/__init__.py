"""How tests read the golden data."""

import json
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent


def load_vectors(name: str) -> list[dict[str, Any]]:
    """One file of golden data, e.g. `iomessage/reference.json`."""
    vectors: list[dict[str, Any]] = json.loads((_HERE / name).read_text(encoding="utf-8"))
    return vectors
