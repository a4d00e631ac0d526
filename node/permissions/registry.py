"""The registry of streams and permissions: in memory, to check every message, and on disk.

Changes are made one at a time, and each checks its permission when its turn comes, because the stream may have been
deleted meanwhile and created again by another user. Memory changes after the disk.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import Final

from node.errors import ErrorCode, Refused
from node.limits import NO_HOLDER, Holder, Limits
from node.storage import Storage
from node.streams import OPERATOR, PUBLIC, Grant, Operation, Stream, key_exchange_owner

_NO_GRANTS: Final[dict[Grant, int]] = {}

log = logging.getLogger(__name__)


class Registry:
    def __init__(self, storage: Storage, limits: Limits) -> None:
        """Blocks while it loads the tables: only for the start."""
        self._storage = storage
        self._max_grants_per_stream = limits.max_grants_per_stream
        self._changing = asyncio.Lock()
        self.stream_quota = limits.quota("streams")
        self.grant_quota = limits.quota("grants")
        if strays := storage.delete_strays():
            log.warning("permissions on streams that do not exist were removed; count=%d", strays)
        self._load()

    def _load(self) -> None:
        streams, grants = self._storage.load()
        self._streams = {stored.stream.id: stored.stream for stored in streams}
        self._holders = {stored.stream.id: stored.holder for stored in streams}
        self._declared = frozenset(stored.stream.id for stored in streams if stored.is_declared)
        self._grants: dict[str, dict[Grant, int]] = {stream_id: {} for stream_id in self._streams}
        for number, grant in grants:
            self._grants[grant.stream_id][grant] = number
        self.stream_quota.clear()
        self.grant_quota.clear()
        for stream_id, holder in self._holders.items():
            self._charge(stream_id, holder, 1)

    def _charge(self, stream_id: str, holder: Holder, sign: int) -> None:
        if stream_id not in self._declared:
            self.stream_quota.add(holder, sign)
            self.grant_quota.add(holder, sign * len(self._grants[stream_id]))

    def __len__(self) -> int:
        return len(self._streams)

    @property
    def grants(self) -> int:
        """The number of permissions on all streams."""
        return sum(map(len, self._grants.values()))

    def __iter__(self) -> Iterator[Stream]:
        return iter(self._streams.values())

    def find(self, stream_id: str) -> Stream | None:
        return self._streams.get(stream_id)

    def get(self, stream_id: str) -> Stream:
        """Raises: `Refused`, NOT_FOUND."""
        stream = self._streams.get(stream_id)
        if stream is None:
            raise _not_found(stream_id)
        return stream

    def may(self, user: str, stream_id: str, operation: Operation) -> bool:
        """Whether the user (an address in lower case, or `PUBLIC`) has this permission, or the public has it."""
        grants = self._grants.get(stream_id, _NO_GRANTS)
        return Grant(stream_id, user, operation) in grants or Grant(stream_id, PUBLIC, operation) in grants

    def require(self, user: str, stream_id: str, operation: Operation) -> Stream:
        """The stream, if the user has this permission on it; the operator has all permissions.

        Raises: `Refused`: NOT_FOUND, PERMISSION_DENIED.
        """
        stream = self.get(stream_id)
        if user != OPERATOR and not self.may(user, stream_id, operation):
            problem = f"{user or 'anonymous'} is not allowed {operation} on stream {stream_id}"
            raise Refused(ErrorCode.PERMISSION_DENIED, problem)
        return stream

    def grants_on(self, stream_id: str) -> list[tuple[int, Grant]]:
        return [(number, grant) for grant, number in self._grants.get(stream_id, _NO_GRANTS).items()]

    def users_with(self, stream_id: str, operation: Operation) -> list[str]:
        """The addresses that have this permission, without the public."""
        grants = self._grants.get(stream_id, _NO_GRANTS)
        return [grant.user for grant in grants if grant.operation is operation and grant.user != PUBLIC]

    # --- changes ---

    async def create(self, stream: Stream, holder: Holder) -> None:
        """Create a stream on which its owner has all permissions. Raises: `Refused` if it exists, or by a quota."""
        grants = [Grant(stream.id, holder.owner, operation) for operation in Operation]
        async with self._changing:
            if stream.id in self._streams or key_exchange_owner(stream.id):
                raise Refused(ErrorCode.INVALID_REQUEST, f"Stream {stream.id} already exists.")
            self.stream_quota.check(holder)
            self.grant_quota.check(holder, len(grants))
            numbers = await self._storage.write(self._storage.tables.create_stream, stream, grants, holder)
            self._streams[stream.id] = stream
            self._holders[stream.id] = holder
            self._grants[stream.id] = dict(zip(grants, numbers, strict=True))
            self._charge(stream.id, holder, 1)

    async def declare(self, streams: Sequence[tuple[Stream, list[Grant]]]) -> None:
        """Declare exactly these streams, each with these settings and exactly these grants.

        A stream that is no longer declared loses all grants, and is deleted if it has no messages.
        """
        async with self._changing:
            changed = await self._storage.write(self._storage.tables.declare, streams)
            self._load()
        if changed.removed_grants:
            log.info("permissions that are not declared were removed; count=%d", changed.removed_grants)
        for stream_id in changed.undeclared:
            log.warning("stream is no longer declared: its permissions were removed; stream=%s", stream_id)

    async def change(self, stream: Stream, *, by: str) -> None:
        """Change the settings of a stream. Raises: `Refused`."""
        async with self._changing:
            self._require_change(by, stream.id, Operation.EDIT)
            await self._storage.write(self._storage.tables.change_stream, stream)
            self._streams[stream.id] = stream

    async def delete(self, stream_id: str, *, by: str) -> None:
        """Delete a stream with all permissions on it. Raises: `Refused`."""
        async with self._changing:
            self._require_change(by, stream_id, Operation.DELETE)
            await self._storage.delete_stream(stream_id)
            self._charge(stream_id, self._holders.pop(stream_id, NO_HOLDER), -1)
            del self._streams[stream_id], self._grants[stream_id]

    async def grant(self, grant: Grant, *, by: str) -> int:
        """Grant a permission, unless it exists. Returns the number by which it can be revoked. Raises: `Refused`."""
        async with self._changing:
            self._require_change(by, grant.stream_id, Operation.SHARE)
            grants, holder = self._grants[grant.stream_id], self._holders[grant.stream_id]
            if grant in grants:
                return grants[grant]
            if by != OPERATOR:
                self._check_grants(grant.stream_id, holder)
            number = await self._storage.write(self._storage.tables.put_grant, grant)
            if number is None:
                raise _not_found(grant.stream_id)
            grants[grant] = number
            self.grant_quota.add(holder)
            return number

    async def revoke(self, stream_id: str, number: int, *, by: str) -> bool:
        """Revoke a permission. Returns whether there was one with this number. Raises: `Refused`."""
        async with self._changing:
            self._require_change(by, stream_id, Operation.SHARE)
            grants = self._grants[stream_id]
            grant = next((grant for grant, known in grants.items() if known == number), None)
            if grant is None:
                return False
            await self._storage.write(self._storage.tables.delete_grant, number)
            del grants[grant]
            self.grant_quota.add(self._holders[stream_id], -1)
            return True

    def _require_change(self, user: str, stream_id: str, operation: Operation) -> None:
        self.require(user, stream_id, operation)
        if stream_id in self._declared:
            raise Refused(
                ErrorCode.PERMISSION_DENIED,
                f"Stream {stream_id} is declared in the configuration of the node; change it there and restart",
            )

    def _check_grants(self, stream_id: str, holder: Holder) -> None:
        limit = self._max_grants_per_stream
        if len(self._grants[stream_id]) >= limit:
            raise Refused(
                ErrorCode.REQUEST_FAILED,
                f"Stream {stream_id} has {limit} grants and may have no more (limits.max_grants_per_stream);"
                " revoke some, or grant to the public",
            )
        self.grant_quota.check(holder)


def _not_found(stream_id: str) -> Refused:
    return Refused(ErrorCode.NOT_FOUND, f"Stream {stream_id} not found.")
