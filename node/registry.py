"""The streams that exist and who may do what with them: in memory to be asked for every message, on disk to last."""

from collections.abc import Iterator
from typing import Final

from node.errors import ErrorCode, Refused
from node.storage import Storage
from node.streams import ANYBODY, Grant, Operation, Stream, key_exchange_owner

__all__ = ["Registry"]

MAX_GRANTS_PER_STREAM: Final = 10_000
_NO_GRANTS: Final[dict[Grant, int]] = {}


class Registry:
    def __init__(self, storage: Storage, *, max_streams: int) -> None:
        """Blocks while it reads what there is: for the start only."""
        self._storage = storage
        self._max_streams = max_streams
        streams, grants = storage.load()
        self._streams = {stream.id: stream for stream in streams}
        self._grants: dict[str, dict[Grant, int]] = {}
        for number, grant in grants:
            self._grants.setdefault(grant.stream_id, {})[grant] = number

    def __len__(self) -> int:
        return len(self._streams)

    def __iter__(self) -> Iterator[Stream]:
        return iter(self._streams.values())

    def find(self, stream_id: str) -> Stream | None:
        return self._streams.get(stream_id)

    def get(self, stream_id: str) -> Stream:
        """Raises: `Refused`, NOT_FOUND."""
        stream = self._streams.get(stream_id)
        if stream is None:
            raise Refused(ErrorCode.NOT_FOUND, f"Stream {stream_id} not found.")
        return stream

    def may(self, user: str, stream_id: str, operation: Operation) -> bool:
        """Whether the user (an address in lower case, or `ANYBODY`) may do this, by their own right or the public's."""
        grants = self._grants.get(stream_id, _NO_GRANTS)
        return Grant(stream_id, user, operation) in grants or Grant(stream_id, ANYBODY, operation) in grants

    def require(self, user: str, stream_id: str, operation: Operation) -> Stream:
        """The stream, for one who may do this with it.

        Raises: `Refused`: NOT_FOUND, PERMISSION_DENIED.
        """
        stream = self.get(stream_id)
        if not self.may(user, stream_id, operation):
            who = user or "anonymous"
            raise Refused(ErrorCode.PERMISSION_DENIED, f"{who} is not allowed {operation} on stream {stream_id}")
        return stream

    def grants_on(self, stream_id: str) -> list[tuple[int, Grant]]:
        return [(number, grant) for grant, number in self._grants.get(stream_id, _NO_GRANTS).items()]

    def users_with(self, stream_id: str, operation: Operation) -> list[str]:
        """The addresses that were granted this; the public is not one."""
        grants = self._grants.get(stream_id, _NO_GRANTS)
        return [grant.user for grant in grants if grant.operation is operation and grant.user != ANYBODY]

    async def create(self, stream: Stream, owner: str) -> None:
        """Make a stream on which its owner may do everything.

        Raises: `Refused` where it exists, or there are too many.
        """
        if stream.id in self._streams or key_exchange_owner(stream.id):
            raise Refused(ErrorCode.INVALID_REQUEST, f"Stream {stream.id} already exists.")
        if len(self._streams) >= self._max_streams:
            raise Refused(ErrorCode.REQUEST_FAILED, f"The node has its {self._max_streams} streams already.")
        grants = [Grant(stream.id, owner, operation) for operation in Operation]
        self._streams[stream.id] = stream
        try:
            numbers = await self._storage.put_stream(stream, grants)
        except BaseException:
            del self._streams[stream.id]
            raise
        self._grants[stream.id] = dict(zip(grants, numbers, strict=True))

    async def declare(self, stream: Stream, grants: list[Grant]) -> None:
        """Have this stream with these settings, and at least these grants on it, whatever there was before."""
        numbers = await self._storage.put_stream(stream, grants)
        self._streams[stream.id] = stream
        self._grants.setdefault(stream.id, {}).update(zip(grants, numbers, strict=True))

    async def change(self, stream: Stream) -> None:
        """Give an existing stream other settings."""
        await self._storage.put_stream(stream, [])
        self._streams[stream.id] = stream

    async def delete(self, stream_id: str) -> None:
        await self._storage.delete_stream(stream_id)
        self._streams.pop(stream_id, None)
        self._grants.pop(stream_id, None)

    async def grant(self, grant: Grant) -> int:
        """Give a permission; nothing changes where it was given before. The number by which it can be revoked."""
        grants = self._grants.setdefault(grant.stream_id, {})
        if len(grants) >= MAX_GRANTS_PER_STREAM:
            raise Refused(ErrorCode.REQUEST_FAILED, f"Stream {grant.stream_id} has too many permissions.")
        grants[grant] = await self._storage.put_grant(grant)
        return grants[grant]

    async def revoke(self, stream_id: str, number: int) -> bool:
        """Take a permission back. Whether there was one of this number."""
        grants = self._grants.get(stream_id, _NO_GRANTS)
        grant = next((grant for grant, known in grants.items() if known == number), None)
        if grant is None:
            return False
        await self._storage.delete_grant(number)
        del grants[grant]
        return True
