"""Streams, their settings and permissions, as the node's values.

Key exchange streams exist without being created, because clients send keys through them: `SYSTEM/keyexchange/0x…` and,
for older clients, an inbox whose id is the address of its owner. Their messages are never stored.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from protocol.ethereum.hashing import is_address

MAX_PARTITIONS: Final = 100
MAX_STREAM_ID_BYTES: Final = 512
MAX_NAME_BYTES: Final = 512
MAX_DESCRIPTION_BYTES: Final = 4096
MAX_STORAGE_DAYS: Final = 36_500
KEY_EXCHANGE_PREFIX: Final = "SYSTEM/keyexchange/"
PUBLIC: Final = ""  # the user of a public grant, and of a client that has not logged in
OPERATOR: Final = "operator"  # administers the node; not an address


class StreamPart(NamedTuple):
    """One partition of a stream; clients subscribe to partitions."""

    stream_id: str
    partition: int

    def fields(self) -> dict[str, Any]:
        """The fields that name the partition in control and tracker messages."""
        return {"stream_id": self.stream_id, "stream_partition": self.partition}


class Operation(StrEnum):
    GET = "stream_get"
    EDIT = "stream_edit"
    DELETE = "stream_delete"
    PUBLISH = "stream_publish"
    SUBSCRIBE = "stream_subscribe"
    SHARE = "stream_share"


class Grant(NamedTuple):
    """One permission: `user`, an address in lower case or `PUBLIC`, may do `operation` with the stream."""

    stream_id: str
    user: str
    operation: Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """The settings of one stream, valid on construction."""

    id: str
    name: str = ""
    description: str = ""
    partitions: int = 1
    require_signed_data: bool = False
    require_encrypted_data: bool = False
    storage_days: int | None = None  # None: `retention.max_days`

    def __post_init__(self) -> None:
        if not self.id:
            raise ValueError("id: must not be empty")
        for field, limit in (
            ("id", MAX_STREAM_ID_BYTES),
            ("name", MAX_NAME_BYTES),
            ("description", MAX_DESCRIPTION_BYTES),
        ):
            _check_length(field, getattr(self, field), limit)
        if not 1 <= self.partitions <= MAX_PARTITIONS:
            raise ValueError(f"partitions: {self.partitions} is not between 1 and {MAX_PARTITIONS}")
        if self.storage_days is not None and not 0 <= self.storage_days <= MAX_STORAGE_DAYS:
            raise ValueError(f"storage_days: {self.storage_days} is not between 0 and {MAX_STORAGE_DAYS}")


def owner_of(stream_id: str) -> str | None:
    """The address, in lower case, at the start of a stream id; None if there is none."""
    domain = stream_id.partition("/")[0]
    return domain.lower() if is_address(domain) else None


def key_exchange_owner(stream_id: str) -> str | None:
    """The address, in lower case, that receives keys through this stream; None if it is not a key exchange stream."""
    address = stream_id.removeprefix(KEY_EXCHANGE_PREFIX)
    return address.lower() if is_address(address) else None


def _check_length(field: str, text: str, limit: int) -> None:
    length = len(text.encode(errors="surrogatepass"))
    if length > limit:
        raise ValueError(f"{field}: {length} bytes are more than {limit}")
