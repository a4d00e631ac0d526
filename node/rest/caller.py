"""The caller of a REST request: its identity, and the streams that it may use."""

from node.access.login import Sessions
from node.http import Request, bad_request
from node.permissions.registry import Registry
from node.streams import PUBLIC, Operation, Stream, StreamPart, key_exchange_owner


class Caller:
    def __init__(self, registry: Registry, sessions: Sessions) -> None:
        self._registry = registry
        self._sessions = sessions

    def user_of(self, request: Request) -> str:
        """The caller's address in lower case, or `PUBLIC`.

        Raises: `Refused`: AUTHENTICATION_FAILED, INVALID_REQUEST.
        """
        if "authorization" not in request.headers:
            return PUBLIC
        if (token := request.bearer_token) is not None:
            return self._sessions.user_of(token)
        if (key := request.api_key) is not None:
            return self._sessions.user_of_api_key(key)
        raise bad_request("The Authorization header must be 'Bearer TOKEN' or 'token KEY'")

    def stream_for(self, request: Request, operation: Operation) -> Stream:
        """The stream in the path, if the caller has this permission on it.

        Key exchange streams always exist, for all callers. Raises: `Refused`.
        """
        stream_id = request.arguments["stream"]
        if key_exchange_owner(stream_id):
            return Stream(id=stream_id, require_signed_data=True)
        return self._registry.require(self.user_of(request), stream_id, operation)

    def part_for(self, request: Request, operation: Operation) -> StreamPart:
        """The partition in the path, if the caller has this permission on its stream. Raises: `Refused`."""
        stream = self.stream_for(request, operation)
        text = request.arguments["partition"]
        if not (text.isascii() and text.isdecimal() and len(text) <= 3) or int(text) >= stream.partitions:
            raise bad_request(f"Stream {stream.id} has no partition {text[:20]!r}")
        return StreamPart(stream.id, int(text))
