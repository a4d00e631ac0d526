"""Logging in and out.

| request | response |
|---|---|
| `POST /login/challenge/{address}` | `{id, challenge, expires}` |
| `POST /login/response` `{challenge: {id, …}, signature, address}` | `{token, expires}` |
| `POST /login/apikey` `{apiKey}` | `{token, expires}`, for old clients that the configuration names |
| `POST /logout` | 204 |
| `GET /users/me` | `{username, name}` |

Guessing is prevented: a challenge is valid for one response, and the rate of logins of each machine is limited.
"""

from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from node.access.login import Session, Sessions
from node.access.policy import Access
from node.clients.session import Services
from node.errors import ErrorCode, Refused
from node.http import Request, Response, Route, bad_request, json_response
from node.rest.caller import Caller
from protocol.ethereum.hashing import is_address
from protocol.shown_text import utc_text
from runtime.token_bucket import TokenBucket

MAX_PEERS: Final = 10_000
LOGIN_BURST: Final = 100


class LoginApi:
    def __init__(self, services: Services, access: Access, caller: Caller) -> None:
        self._services = services
        self._access = access
        self._caller = caller
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()  # by machine; least recently used first

    def routes(self) -> list[Route]:
        return [
            Route("POST", "/login/challenge/{address}", self.challenge),
            Route("POST", "/login/response", self.respond),
            Route("POST", "/login/apikey", self.log_in_by_api_key),
            Route("POST", "/logout", self.log_out),
            Route("GET", "/users/me", self.me),
        ]

    async def challenge(self, request: Request) -> Response:
        if (refusal := self._limit_rate(request)) is not None:
            return refusal
        address = request.arguments["address"]
        if not is_address(address):
            raise bad_request("An address is 0x and 40 hex digits")
        self._access.check_login(address)
        challenge = self._services.sessions.challenge(address)
        return json_response(
            {"id": challenge.id, "challenge": challenge.text, "expires": _iso(challenge.expires_at_ms)}
        )

    async def respond(self, request: Request) -> Response:
        if (refusal := self._limit_rate(request)) is not None:
            return refusal
        challenge_id, signature, address = _read_response(request)
        return self._open_session(lambda sessions: sessions.respond(challenge_id, signature, address))

    async def log_in_by_api_key(self, request: Request) -> Response:
        if (refusal := self._limit_rate(request)) is not None:
            return refusal
        key = request.json().get("apiKey")
        if not isinstance(key, str):
            raise bad_request("The body must be {apiKey}")
        return self._open_session(lambda sessions: sessions.open(sessions.user_of_api_key(key)))

    def _open_session(self, log_in: Callable[[Sessions], Session]) -> Response:
        try:
            session = log_in(self._services.sessions)
        except Refused:
            self._services.counters.logins_refused += 1
            raise
        self._services.counters.logins += 1
        return json_response({"token": session.token, "expires": _iso(session.expires_at_ms)})

    async def log_out(self, request: Request) -> Response:
        if token := request.bearer_token:
            self._services.sessions.close(token)
        return Response(status=HTTPStatus.NO_CONTENT)

    async def me(self, request: Request) -> Response:
        user = self._caller.user_of(request)
        if not user:
            raise Refused(ErrorCode.AUTHENTICATION_FAILED, "Not logged in")
        return json_response({"username": user, "name": user})

    def _limit_rate(self, request: Request) -> Response | None:
        bucket = self._buckets.pop(request.peer, None)
        if bucket is None:
            bucket = TokenBucket(self._services.limits.max_logins_per_s, burst=LOGIN_BURST)
            if len(self._buckets) >= MAX_PEERS:
                self._buckets.popitem(last=False)
        self._buckets[request.peer] = bucket
        if bucket.take_if_available(1, self._services.clock_s()) == 0:
            return None
        self._services.counters.logins_refused += 1
        return json_response({"error": "Too many logins; try again later"}, HTTPStatus.TOO_MANY_REQUESTS)


def _read_response(request: Request) -> tuple[str, str, str]:
    body = request.json()
    challenge = body.get("challenge")
    found = (challenge.get("id") if isinstance(challenge, dict) else None, body.get("signature"), body.get("address"))
    match found:
        case str(challenge_id), str(signature), str(address):
            return challenge_id, signature, address
    raise bad_request("The body must be {challenge: {id, …}, signature, address}")


def _iso(time_ms: int) -> str:
    return utc_text(time_ms).replace("+00:00", "Z")
