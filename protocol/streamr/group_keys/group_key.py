"""The key of an encrypted stream."""

from dataclasses import dataclass, field
from typing import Final

GROUP_KEY_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class GroupKey:
    """An AES-256 key and its id in messages; the key is masked in `repr`. In version 31 the id is empty."""

    group_key_id: str
    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if "---BEGIN" in self.group_key_id:
            raise ValueError("group_key_id: looks like a PEM text, which has another meaning in its place")
        if len(self.key) != GROUP_KEY_BYTES:
            raise ValueError(f"key: has {len(self.key)} bytes, not {GROUP_KEY_BYTES}")
