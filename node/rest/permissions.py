"""Permissions on streams: given, listed and taken back by whoever may share the stream.

| request | answer |
|---|---|
| `GET /streams/{id}/permissions` | `[{id, operation, user}]`, or `anonymous: true` in place of `user` |
| `GET /streams/{id}/permissions/me` | what the caller may do, by their own right or the public's |
| `POST /streams/{id}/permissions` `{operation, user}` or `{operation, anonymous: true}` | the permission |
| `DELETE /streams/{id}/permissions/{number}` | 204 |
"""

from http import HTTPStatus
from typing import Any

from node.client_session import Services
from node.errors import ErrorCode, Refused
from node.http import Request, Response, Route, bad_request, json_response
from node.rest.caller import Caller
from node.streams import ANYBODY, Grant, Operation
from protocol.streamr.ethereum import is_address

__all__ = ["PermissionsApi"]


class PermissionsApi:
    def __init__(self, services: Services, caller: Caller) -> None:
        self._registry = services.registry
        self._caller = caller

    def routes(self) -> list[Route]:
        return [
            Route("GET", "/streams/{stream}/permissions", self.list),
            Route("GET", "/streams/{stream}/permissions/me", self.list_mine),
            Route("POST", "/streams/{stream}/permissions", self.grant),
            Route("DELETE", "/streams/{stream}/permissions/{number}", self.revoke),
        ]

    async def list(self, request: Request) -> Response:
        stream = self._caller.stream_for(request, Operation.SHARE)
        return json_response([_as_json(*entry) for entry in self._registry.grants_on(stream.id)])

    async def list_mine(self, request: Request) -> Response:
        user = self._caller.user_of(request)
        stream = self._registry.get(request.arguments["stream"])
        mine = [entry for entry in self._registry.grants_on(stream.id) if entry[1].user in (user, ANYBODY)]
        return json_response([_as_json(*entry) for entry in mine])

    async def grant(self, request: Request) -> Response:
        stream = self._registry.require(self._caller.user_of(request), request.arguments["stream"], Operation.SHARE)
        grant = _read_grant(stream.id, request.json())
        return json_response(_as_json(await self._registry.grant(grant), grant))

    async def revoke(self, request: Request) -> Response:
        stream = self._registry.require(self._caller.user_of(request), request.arguments["stream"], Operation.SHARE)
        number = request.arguments["number"]
        is_number = number.isascii() and number.isdecimal() and len(number) <= 16
        if not is_number or not await self._registry.revoke(stream.id, int(number)):
            raise Refused(ErrorCode.NOT_FOUND, "There is no such permission")
        return Response(status=HTTPStatus.NO_CONTENT)


def _read_grant(stream_id: str, body: dict[str, Any]) -> Grant:
    """Raises: `Refused`, INVALID_REQUEST."""
    try:
        operation = Operation(str(body.get("operation")))
    except ValueError:
        raise bad_request(f"operation must be one of {', '.join(Operation)}") from None
    user = body.get("user")
    if user is None and body.get("anonymous") is True:
        return Grant(stream_id, ANYBODY, operation)
    if not isinstance(user, str) or not is_address(user):
        raise bad_request("user must be an address, or anonymous must be true")
    return Grant(stream_id, user.lower(), operation)


def _as_json(number: int, grant: Grant) -> dict[str, Any]:
    who = {"anonymous": True} if grant.user == ANYBODY else {"user": grant.user}
    return {"id": number, "operation": grant.operation, **who}
