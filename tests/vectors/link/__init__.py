"""The link's vectors, and the bytes in them. `make_vectors.py` says how they came about."""

import json
from pathlib import Path
from typing import Any


def load(name: str) -> Any:
    return json.loads((Path(__file__).parent / f"{name}.json").read_text(encoding="utf-8"))
