"""Where clients connect, and the versions that they are answered in.

    /api/v1/ws?controlLayerVersion=2&messageLayerVersion=32

Without versions, the client speaks the legacy JSON API: control version 0, messages of version 28.
"""

from collections.abc import Mapping
from typing import Final

from node.client_session import ClientSession, Services
from node.http import Request, Upgrade, bad_request
from node.serialization import LEGACY_API, Versions

__all__ = ["ClientEndpoint", "negotiate"]

CONTROL_VERSIONS: Final = ("1", "2")
STREAM_VERSIONS: Final = ("30", "31", "32")


class ClientEndpoint:
    def __init__(self, services: Services) -> None:
        self._services = services

    def upgrade(self, request: Request) -> Upgrade:
        """Raises: `Refused`, INVALID_REQUEST."""
        versions = negotiate(request.query)
        return Upgrade(serve=lambda connection: ClientSession(connection, versions, self._services).serve())


def negotiate(query: Mapping[str, str]) -> Versions:
    """Both versions, or neither. Raises: `Refused`, INVALID_REQUEST."""
    control, stream = query.get("controlLayerVersion"), query.get("messageLayerVersion")
    if control is None and stream is None:
        return LEGACY_API
    if control not in CONTROL_VERSIONS or stream not in STREAM_VERSIONS:
        raise bad_request(
            f"controlLayerVersion must be one of {', '.join(CONTROL_VERSIONS)}"
            f" and messageLayerVersion one of {', '.join(STREAM_VERSIONS)}"
        )
    return Versions(int(control), int(stream))
