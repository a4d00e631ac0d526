"""REST: streams, their settings, and the permissions on them.

| request | response |
|---|---|
| `POST /streams` `{id?, name?, partitions?, …}` | the stream; without an id, the node generates one |
| `GET /streams` `?name` | the streams that the caller may see |
| `GET`, `PUT`, `DELETE /streams/{id}` | the stream, the changed stream, 204 |
| `GET /streams/{id}/publisher/{address}`, `…/subscriber/{address}` | 200 or 404 |
| `GET /streams/{id}/publishers`, `…/subscribers` | `{addresses}` |
| `GET /streams/{id}/validation` | `{id, partitions, requireSignedData, requireEncryptedData}` |
| `GET /streams/{id}/permissions` | `[{id, operation, user}]`, or `anonymous: true` in place of `user` |
| `GET /streams/{id}/permissions/me` | the permissions of the caller, and those granted to the public |
| `POST /streams/{id}/permissions` `{operation, user}` or `{operation, anonymous: true}` | the permission |
| `DELETE /streams/{id}/permissions/{number}` | 204 |
"""

import secrets
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from node.access.policy import Access
from node.clients.session import Services
from node.errors import ErrorCode, Refused
from node.http import Request, Response, Route, bad_request, json_response
from node.limits import Holder
from node.rest.caller import Caller
from node.streams import PUBLIC, Grant, Operation, Stream, key_exchange_owner
from protocol.ethereum.hashing import is_address
from runtime.client_network import client_network

GENERATED_ID_BYTES: Final = 12
MAX_LISTED: Final = 1_000
_SETTINGS: Final[dict[str, tuple[str, type]]] = {
    "name": ("name", str),
    "description": ("description", str),
    "partitions": ("partitions", int),
    "requireSignedData": ("require_signed_data", bool),
    "requireEncryptedData": ("require_encrypted_data", bool),
    "storageDays": ("storage_days", int),
}


class StreamsApi:
    def __init__(self, services: Services, access: Access, caller: Caller) -> None:
        self._registry = services.registry
        self._access = access
        self._caller = caller

    def routes(self) -> list[Route]:
        return [
            Route("POST", "/streams", self.create),
            Route("GET", "/streams", self.list),
            Route("GET", "/streams/{stream}/publisher/{address}", partial(self.has_permission, Operation.PUBLISH)),
            Route("GET", "/streams/{stream}/subscriber/{address}", partial(self.has_permission, Operation.SUBSCRIBE)),
            Route("GET", "/streams/{stream}/publishers", partial(self.list_users, Operation.PUBLISH)),
            Route("GET", "/streams/{stream}/subscribers", partial(self.list_users, Operation.SUBSCRIBE)),
            Route("GET", "/streams/{stream}/validation", self.validation),
        ]

    def catch_all_routes(self) -> list[Route]:
        """These come last, because old clients do not encode slashes and the id would swallow every other path."""
        return [
            Route("GET", "/streams/{stream}", self.get),
            Route("PUT", "/streams/{stream}", self.change),
            Route("DELETE", "/streams/{stream}", self.delete),
        ]

    async def create(self, request: Request) -> Response:
        user = self._caller.user_of(request)
        body = request.json()
        stream_id = body.get("id") or f"{user}/{secrets.token_hex(GENERATED_ID_BYTES)}"
        if not isinstance(stream_id, str):
            raise bad_request("id must be a string")
        self._access.check_creation(stream_id, user)
        stream = _with_settings(Stream(id="new"), {**body, "id": stream_id})
        await self._registry.create(stream, Holder(user, client_network(request.peer)))
        return json_response(stream_as_json(stream))

    async def list(self, request: Request) -> Response:
        user = self._caller.user_of(request)
        name = request.query.get("name")
        seen = (
            stream_as_json(stream)
            for stream in self._registry
            if (name is None or stream.name == name) and self._registry.may(user, stream.id, Operation.GET)
        )
        return json_response([entry for entry, _ in zip(seen, range(MAX_LISTED), strict=False)])

    async def get(self, request: Request) -> Response:
        return json_response(stream_as_json(self._caller.stream_for(request, Operation.GET)))

    async def change(self, request: Request) -> Response:
        user = self._caller.user_of(request)
        stream = self._registry.require(user, request.arguments["stream"], Operation.EDIT)
        changed = _with_settings(stream, {**request.json(), "id": stream.id})
        await self._registry.change(changed, by=user)
        return json_response(stream_as_json(changed))

    async def delete(self, request: Request) -> Response:
        await self._registry.delete(request.arguments["stream"], by=self._caller.user_of(request))
        return Response(status=HTTPStatus.NO_CONTENT)

    async def has_permission(self, operation: Operation, request: Request) -> Response:
        stream_id, address = request.arguments["stream"], request.arguments["address"].lower()
        if key_exchange_owner(stream_id) or self._registry.may(address, stream_id, operation):
            return Response()
        raise Refused(ErrorCode.NOT_FOUND, f"{address} does not have {operation} on stream {stream_id}")

    async def list_users(self, operation: Operation, request: Request) -> Response:
        stream = self._caller.stream_for(request, Operation.GET)
        return json_response({"addresses": self._registry.users_with(stream.id, operation)})

    async def validation(self, request: Request) -> Response:
        """Every client may call it: brokers do so for messages of publishers that they do not know."""
        stream_id = request.arguments["stream"]
        stream = Stream(id=stream_id) if key_exchange_owner(stream_id) else self._registry.get(stream_id)
        names = ("id", "partitions", "requireSignedData", "requireEncryptedData")
        return json_response({key: stream_as_json(stream)[key] for key in names})


def stream_as_json(stream: Stream) -> dict[str, Any]:
    return {
        "id": stream.id,
        "name": stream.name or stream.id,
        "description": stream.description,
        "partitions": stream.partitions,
        "requireSignedData": stream.require_signed_data,
        "requireEncryptedData": stream.require_encrypted_data,
        "storageDays": stream.storage_days,
        "config": {"fields": []},
    }


def _with_settings(stream: Stream, body: dict[str, Any]) -> Stream:
    """The stream with the settings of the body; absent and null ones do not change. Raises: `Refused`."""
    changes: dict[str, Any] = {"id": body["id"]}
    for key, (field, kind) in _SETTINGS.items():
        value = body.get(key)
        if value is None:
            continue
        if type(value) is not kind:
            raise bad_request(f"{key} must be of type {kind.__name__}")
        changes[field] = value
    try:
        return replace(stream, **changes)
    except ValueError as problem:
        raise bad_request(str(problem)) from None


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
        mine = [entry for entry in self._registry.grants_on(stream.id) if entry[1].user in (user, PUBLIC)]
        return json_response([_as_json(*entry) for entry in mine])

    async def grant(self, request: Request) -> Response:
        user = self._caller.user_of(request)
        stream = self._registry.require(user, request.arguments["stream"], Operation.SHARE)
        grant = _read_grant(stream.id, request.json())
        return json_response(_as_json(await self._registry.grant(grant, by=user), grant))

    async def revoke(self, request: Request) -> Response:
        user = self._caller.user_of(request)
        stream = self._registry.require(user, request.arguments["stream"], Operation.SHARE)
        number = request.arguments["number"]
        is_number = number.isascii() and number.isdecimal() and len(number) <= 16
        if not is_number or not await self._registry.revoke(stream.id, int(number), by=user):
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
        return Grant(stream_id, PUBLIC, operation)
    if not isinstance(user, str) or not is_address(user):
        raise bad_request("user must be an address, or anonymous must be true")
    return Grant(stream_id, user.lower(), operation)


def _as_json(number: int, grant: Grant) -> dict[str, Any]:
    user = {"anonymous": True} if grant.user == PUBLIC else {"user": grant.user}
    return {"id": number, "operation": grant.operation, **user}
