"""The REST interface under `/api/v1`: for stock clients, brokers and scripts."""

from node.access.policy import Access
from node.clients.session import Services
from node.http import Route
from node.rest.caller import Caller
from node.rest.data import PublishingApi, ReadingApi
from node.rest.login import LoginApi
from node.rest.streams import PermissionsApi, StreamsApi

__all__ = ["API_PREFIX", "rest_routes"]

API_PREFIX = "/api/v1"


def rest_routes(services: Services, access: Access) -> list[Route]:
    """Every route, in the order in which they are tried."""
    caller = Caller(services.registry, services.sessions)
    streams = StreamsApi(services, access, caller)
    routes = [
        *LoginApi(services, access, caller).routes(),
        *PermissionsApi(services, caller).routes(),
        *PublishingApi(services, caller).routes(),
        *ReadingApi(services, caller).routes(),
        *streams.routes(),
        *streams.catch_all_routes(),
    ]
    return [route._replace(pattern=API_PREFIX + route.pattern) for route in routes]
